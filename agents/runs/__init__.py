"""A training run: its settings, parts, loop, files and checkpoints."""
