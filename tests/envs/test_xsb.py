"""Level files as users have them: Boxoban's, and XSB collections from the web."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.envs import SokobanEnv, load_levels, solve
from graphwrap.envs.xsb import UNKNOWN, format_xsb, parse_xsb

from .boards import THREE, three_levels

BOXOBAN = """; 0
##########
##########
##########
#####  ###
#####. ###
####  $###
###@ $   #
###. #   #
##########
##########

; 1
##########
#   ######
# $ ######
#.@  #####
#    #####
#. $ #####
##########
##########
##########
##########
"""

COLLECTION = """Title: Two rooms
Author: somebody
Comment:
  They are of different size, and drawn in two ways.
Comment-End:

    #####
    #   #
    #$  #
  ###  $##
  #  $ $ #
### # ## #   ######
#   # ## #####  ..#
# $  $          ..#
##### ### #@##  ..#
    #     #########
    #######
Title: The first
Collection: old

--####
###-.#
#@$--#
####-#
---###
; The second
"""


def test_boxoban(tmp_path: Path) -> None:
    (tmp_path / "000.txt").write_text(BOXOBAN)
    levels = load_levels(tmp_path / "000.txt")
    assert levels.boards.shape == (2, 10, 10)
    assert levels.optimal.tolist() == [UNKNOWN, UNKNOWN]
    assert levels.header == ()
    assert "".join(f"; {index}\n{levels.text(index)}\n\n" for index in range(2)).strip() == BOXOBAN.strip()
    assert solve(levels.boards[1]) is not None
    assert SokobanEnv(tmp_path / "000.txt").reset(seed=0)[0].shape == (7, 10, 10)


def test_a_collection_with_ragged_rows_and_two_sizes() -> None:
    boards, optimal, header = parse_xsb(COLLECTION)
    assert boards.shape == (2, 11, 19)
    assert optimal.tolist() == [UNKNOWN, UNKNOWN]
    assert header == ()
    assert format_xsb(boards, optimal) == (
        "; 0\n"
        "###################\n"
        "#####   ###########\n"
        "#####$  ###########\n"
        "#####  $###########\n"
        "###  $ $ ##########\n"
        "### # ## ##########\n"
        "#   # ## #####  ..#\n"
        "# $  $          ..#\n"
        "##### ### #@##  ..#\n"
        "#####     #########\n"
        "###################\n"
        "\n"
        "; 1\n"
        "###################\n"
        "### .##############\n"
        "#@$  ##############\n"
        "#### ##############\n" + 7 * "###################\n"
    )


@pytest.mark.parametrize("text", [BOXOBAN, COLLECTION, THREE])
def test_line_endings_byte_order_marks_and_blanks_at_the_end(text: str, tmp_path: Path) -> None:
    plain = parse_xsb(text)
    for number, data in enumerate(
        (
            text.replace("\n", "\r\n").encode(),
            b"\xef\xbb\xbf" + text.encode(),
            text.replace("\n", "   \n").encode(),
            text.replace("\n", "\t\r\n").encode("utf-8-sig"),
            (text + "\n; by J\u00f6rg\n").encode("latin-1"),
            text.strip("\n").encode(),
        )
    ):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(data)
        read = load_levels(path)
        np.testing.assert_array_equal(read.boards, plain[0])
        np.testing.assert_array_equal(read.optimal, plain[1])


def test_titles_between_levels_need_no_blank_lines() -> None:
    boards, optimal, _ = parse_xsb("Level 1\n#####\n#@$.#\n#####\nLevel 2\n#####\n#.$@#\n#####\n---\n")
    assert boards[:, 1].tolist() == [[0, 5, 4, 2, 0], [0, 2, 4, 5, 0]]
    assert optimal.tolist() == [UNKNOWN, UNKNOWN]


def test_all_characters() -> None:
    boards, _, _ = parse_xsb("########\n#+$* -_#\n#@$. .$#\n########\n")
    assert boards[0, 1].tolist() == [0, 6, 4, 3, 1, 1, 1, 0]
    assert boards[0, 2].tolist() == [0, 5, 4, 2, 1, 2, 4, 0]


def test_headings_and_header() -> None:
    boards, optimal, header = parse_xsb("; about\n;more\n" + THREE + "; 3 optimal 9\n")
    np.testing.assert_array_equal(boards, three_levels().boards)
    assert optimal.tolist() == [1, UNKNOWN, 2]
    assert header == ("about", "more")


@st.composite
def rooms(draw: st.DrawFn) -> np.ndarray:
    """A room of any size, with floor inside and walls or nothing around."""
    height, width = draw(st.integers(1, 6)), draw(st.integers(3, 6))
    inside = np.array(
        draw(st.lists(st.sampled_from([0, 1, 1]), min_size=height * width, max_size=height * width))
    )
    inside[:3] = 5, 4, 2
    return np.pad(inside.reshape(height, width), 1).astype(np.uint8)


@given(st.lists(rooms(), min_size=1, max_size=4), st.booleans())
def test_what_is_written_is_read(boards: list[np.ndarray], indented: bool) -> None:
    """Boards of many sizes, as text with or without an outside, come back in the top left corner, walls around."""
    blocks = []
    for board in boards:
        lines = ["".join("# .*$@+"[code] for code in row) for row in board]
        if indented:
            lines = ["  " + line for line in lines]
        blocks.append("\n".join(lines))
    read, optimal, _ = parse_xsb("\n\n".join(blocks))
    assert read.shape[1:] == (
        max(board.shape[0] for board in boards),
        max(board.shape[1] for board in boards) + 2 * indented,
    )
    for one, board in zip(read, boards):
        expected = np.zeros(one.shape, np.uint8)
        expected[: board.shape[0], 2 * indented : 2 * indented + board.shape[1]] = board
        np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(parse_xsb(format_xsb(read, optimal))[0], read)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (THREE.replace("@", "x", 1), "line 5 has 'x' in '#x"),
        (THREE.replace("#@$.  #", " @$.  ", 1), r"begins and ends with a wall: line 5 is ' @\$\.'"),
        ("#####\n#@$. \n#####\n", r"in level 0, at line 1, the outside reaches '\.' in row 2 and column 4"),
        ("; 0\n#####\n#@$.#\n#####\n\n; 1\n####\n#@ #\n#$.\n####\n", "in level 1, at line 7, the outside"),
        ("; nothing\n", "at least one block"),
        ("", "at least one block"),
    ],
)
def test_files_that_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        load_levels(tmp_path / "bad.txt")
    assert str(tmp_path / "bad.txt") in str(caught.value)


def test_a_level_that_is_none_is_shown(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text(THREE + "\n; 3\n#######\n#@ $ ##\n#######\n")
    with pytest.raises(
        ValueError, match=r"as many targets as boxes; level 3 breaks this:\n#######\n#@ \$ ##"
    ):
        load_levels(tmp_path / "bad.txt")
