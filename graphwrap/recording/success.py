"""Where environments say that an episode succeeded; on its own, since it is read without a compiler."""

SUCCESS_KEYS = ("is_success", "success", "won")
"""Entries of a final step's info that say whether the episode succeeded; the first one there counts."""
