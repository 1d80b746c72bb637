"""Small boards written by hand, for several test files."""

from __future__ import annotations

from graphwrap.envs import LevelSet
from graphwrap.envs.xsb import parse_xsb

# Level 0: push right once. Level 1: the player starts on a target, one box is home already. Level 2: push right twice.
THREE = """
; 0 optimal 1
#######
#     #
#@$.  #
#     #
#######

; 1
#######
#     #
#+$ * #
#     #
#######

; 2 optimal 2
#######
#     #
#@$ . #
#     #
#######
"""


def three_levels() -> LevelSet:
    boards, optimal, _ = parse_xsb(THREE)
    return LevelSet("three", boards, optimal)
