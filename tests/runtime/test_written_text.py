"""What a model has written so far: all of it, in few pieces."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.models.base import CallPartDelta, TextPart
from windlass.runtime.drive.written_text import PIECES_MAX, WrittenText


@given(st.lists(st.text(max_size=3) | st.none(), max_size=4 * PIECES_MAX))
def test_all_text_is_kept_in_few_pieces_and_every_piece_is_counted(texts: list[str | None]):
    written = WrittenText()
    for text in texts:
        piece: Any = TextPart(text=text) if text is not None else CallPartDelta(ordinal=0, fragment="{}")
        written.newest.append(piece)
        if len(written.newest) >= PIECES_MAX:
            written.shorten()
    assert str(written) == "".join(text for text in texts if text is not None)
    assert written.count == len(texts)
    assert len(written.newest) < PIECES_MAX
    assert len(written._whole) <= len(texts) // PIECES_MAX
