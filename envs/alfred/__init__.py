"""ALFWorld's engine and games."""
