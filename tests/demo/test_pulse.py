"""The picture of the rates."""

from cordwood.demo.pulse import PLAIN, bracket, drawn


def test_the_highest_rate_is_a_full_block_and_none_is_a_gap() -> None:
    assert drawn([0, 4, 8, 0, 1], 10) == " ▄█ ▁"
    assert drawn([0, 0], 10) == "  "
    assert drawn([], 10) == ""


def test_only_the_newest_are_drawn() -> None:
    assert drawn([8, 8, 0, 8], 2) == " █"


def test_without_blocks_it_is_plain_text() -> None:
    assert drawn([0, 4, 8], 10, PLAIN).isascii()
    assert bracket([1, 3], 6, 10, plain=True) == r" \-/"


def test_the_bracket_stands_below_the_steps_without_a_broker() -> None:
    assert bracket([2, 5], 8, 20) == "  ╰──╯"
    assert bracket([2, 5], 8, 4) == "─╯"
    assert bracket([2], 6, 20) == "  ╰───", "it is still away"


def test_a_burst_does_not_flatten_what_is_usual() -> None:
    assert drawn([4, 4, 4, 0, 100, 4, 4], 7) == "▄▄▄ █▄▄"
