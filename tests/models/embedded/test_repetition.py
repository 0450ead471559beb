"""An answer that goes round in circles ends behind the first round; any other passes as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.models.embedded.repetition import UNIT_MAX, Repeats

OSLO = "In Oslo it is 02:42."


def told(written: str, size: int = 1) -> tuple[str, str, bool]:
    """What is shown while a text comes in pieces, what is left of it at the end, and whether it was ended."""
    repeats = Repeats()
    shown = "".join(repeats.feed(written[at : at + size]) for at in range(0, len(written), size)) + repeats.rest()
    return shown, repeats.text, repeats.endless


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
@pytest.mark.parametrize(
    ("written", "once"),
    [
        (f"{OSLO} " * 9, OSLO),
        (f"{OSLO}\n" * 9, OSLO),
        ('{"text": "' + f"{OSLO} " * 9, '{"text": "' + OSLO),
        ('{"text": "' + f"{OSLO}\\n\\n" * 9, '{"text": "' + OSLO),
        (f"Well now. {OSLO} It is late! " + f"{OSLO} It is late! " * 9, f"Well now. {OSLO} It is late!"),
        ("- the same line\n" * 9, "- the same line"),
        (f"So: {OSLO} " + f"{OSLO} " * 9, f"So: {OSLO}"),
    ],
)
def test_what_repeats_without_end_is_told_once(written: str, once: str, size: int):
    assert told(written, size) == (once, once, True)


@pytest.mark.parametrize("size", [1, 3, 1_000])
@pytest.mark.parametrize(
    "written",
    [
        "",
        OSLO,
        f"{OSLO} {OSLO}",
        f"{OSLO} {OSLO} In Oslo it is late.",
        f"{OSLO} In Oslo it is cold. {OSLO} In Oslo it is warm. {OSLO}",
        "No. No. No. No. No.",
        "1. First\n2. Second\n3. Third\n",
        "    }\n    }\n    }\n    }\n",
        f"{'x' * UNIT_MAX}. " * 4,
    ],
)
def test_what_does_not_passes_as_it_is(written: str, size: int):
    assert told(written, size) == (written, written, False)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_stutter_ends_the_answer_where_it_stands(size: int):
    shown, left, endless = told("In Lima it is 21:03.03" + ".00" * 200, size)
    assert endless
    assert shown == left
    assert left.startswith("In Lima it is 21:03.03.00.00")
    assert len(left) < 80


@pytest.mark.parametrize(
    "written", ["-" * 300, "=" * 90 + "\n", " " * 200 + "x", "| --- " * 10 + "|\n", "ha" * 10, "1,000,000,000,000"]
)
def test_lines_and_blanks_are_no_stutter(written: str):
    assert told(written) == (written, written, False)


def test_beginning_of_a_repetition_is_held_back_until_it_is_none():
    repeats = Repeats()
    assert repeats.feed(OSLO) == OSLO
    assert repeats.feed(" In Oslo") == ""
    assert repeats.feed(" it") == ""
    assert repeats.feed(" was") == " In Oslo it was"


@given(st.text(alphabet="ab. \n", max_size=200), st.integers(1, 9))
def test_what_is_shown_is_what_is_left_and_how_it_began(written: str, size: int):
    shown, left, endless = told(written, size)
    assert shown == left
    assert written.startswith(left)
    assert endless or left == written
