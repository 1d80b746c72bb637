"""Settings of training runs, as YAML files."""
