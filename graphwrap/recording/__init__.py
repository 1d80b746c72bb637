"""From environments to transitions: episodes, groups, windows, wrappers."""
