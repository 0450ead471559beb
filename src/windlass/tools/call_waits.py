"""The waits of a call that do not count against its tool's time: for a person, or for a thread to begin in."""

from __future__ import annotations

from collections.abc import Callable


class CallWaits:
    """How many of them are open, and who wants to know when that changes. Everything here happens on the loop."""

    __slots__ = ("_heard_by", "_open")

    def __init__(self) -> None:
        self._open = 0
        self._heard_by: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        """Whether the call waits just now, so that its time stands still."""
        return self._open > 0

    def begin(self) -> None:
        """One more wait."""
        self._change(+1)

    def end(self) -> None:
        """One of them is over."""
        self._change(-1)

    def hear(self, changed: Callable[[], None]) -> None:
        """Calls `changed()` whenever a wait begins or ends."""
        self._heard_by.append(changed)

    def unhear(self, changed: Callable[[], None]) -> None:
        """Takes that back."""
        self._heard_by.remove(changed)

    def _change(self, by: int) -> None:
        self._open += by
        for changed in self._heard_by:
            changed()
