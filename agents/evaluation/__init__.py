"""Plays an agent in a text environment and says how good it is."""
