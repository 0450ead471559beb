"""Prints what a run is doing while it does it: text as it streams, calls with their arguments, results, waits.

The model's words go to one stream, what the runtime says about them to another, so that a pipe gets the words alone: of
answers that are whole, since nobody could take back there what a model was cut off in.
"""

from __future__ import annotations

import contextlib
from typing import TextIO, assert_never

from windlass.cli.terminal.text import (
    WIDTH_UNBOUND,
    Column,
    Flow,
    Paint,
    fold_lines,
    is_terminal,
    put,
    rows_of,
    width_of,
)
from windlass.protocol.view import Told

from .narration import Marked, Narration, Note, Pause, Spoken, Thought, Words

MARGIN = "  "


class Narrator:
    """Prints what is told of one session as it comes."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        quiet: bool = False,
        flow: Column | None = None,
        thoughts: Column | None = None,
    ) -> None:
        self._err = err
        self._paint = Paint(err)
        self._quiet = quiet
        screen = is_terminal(out)
        self._flow: Column = flow or Flow(out, margin=MARGIN if screen else "", width=width_of(out) if screen else None)
        self._thoughts: Column = thoughts or Flow(
            err, margin="  · ", width=width_of(err) if is_terminal(err) else WIDTH_UNBOUND
        )
        self._narration = Narration(live=screen or flow is not None)

    def note(self, line: str, colour: str = "dim", *, always: bool = False) -> None:
        """A line of the runtime's own, `always` also if only the model's words are wanted; the text must be visible
        text. It is told also if nobody reads the model's words any more."""
        with contextlib.suppress(OSError):
            self._flow.end_line()
        self._thoughts.end_line()
        if self._quiet and not always:
            return
        lines = rows_of(line, width_of(self._err) - 1) if is_terminal(self._err) else [line]
        for piece in lines:
            put(self._paint(piece, colour), self._err, flush=True)

    def after_key(self) -> None:
        """Begins a fresh line behind the key that the terminal has just echoed (^C), unless one begins anyway."""
        if not (self._flow.open_line or self._thoughts.open_line) and is_terminal(self._err):
            put("", self._err, flush=True)

    def rest(self) -> None:
        """Ends what is half written."""
        self._flow.end_line()
        self._thoughts.end_line()

    def tell(self, told: Told) -> None:
        """Prints what there is to say of one record or live event."""
        for spoken in self._narration.feed(told):
            self._print(spoken)

    def _print(self, spoken: Spoken) -> None:
        match spoken:
            case Words(text):
                self._thoughts.end_line()
                self._flow.write(text)
            case Thought(text):
                if not self._quiet:
                    self._flow.end_line()
                    self._thoughts.write(text)
            case Marked(mark, text, colour):
                self._marked(mark, text, colour)
            case Note(text, colour, always):
                self.note(text, colour, always=always)
            case Pause():
                self.rest()
            case _:
                assert_never(spoken)

    def _marked(self, mark: str, shown: str, colour: str) -> None:
        """A line with a mark before it, wrapped behind that mark."""
        if self._quiet:
            return
        self.rest()
        lines = fold_lines(shown, width_of(self._err) - 3) if is_terminal(self._err) else [shown]
        put(self._paint(f"{mark} ", colour) + f"\n{MARGIN}".join(lines), self._err, flush=True)
