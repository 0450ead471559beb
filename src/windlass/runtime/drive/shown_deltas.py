"""What a model writes, as readers are shown it while it comes: without known secrets, wherever the pieces were cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.live import CallDelta, Live, ReasoningDelta, TextDelta
from windlass.events.stored.known_secrets import SECRETS, HiddenStream

if TYPE_CHECKING:
    from windlass.runtime.streams.subscribers import Hub


class ShownDeltas:
    """The pieces of one answer. Text, reasoning and the arguments of each call are streams of their own."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._streams: dict[tuple[type[Live], int], tuple[HiddenStream, Live]] = {}

    def show(self, deltas: list[Live]) -> None:
        """Tells readers, if there are any; what may be the beginning of a secret comes later."""
        if SECRETS.longest:
            deltas = [self._clean(delta) for delta in deltas]
        if self._hub.hearing:
            self._hub.live(deltas)

    def end(self) -> None:
        """The answer is complete: what was held back is shown too."""
        rest = [_with_text(last, stream.end()) for stream, last in self._streams.values()]
        self._streams.clear()
        deltas = [delta for delta in rest if _text(delta)]
        if deltas and self._hub.hearing:
            self._hub.live(deltas)

    def _clean(self, delta: Live) -> Live:
        if not isinstance(delta, TextDelta | ReasoningDelta | CallDelta):
            return delta
        key = (type(delta), delta.ordinal if isinstance(delta, CallDelta) else 0)
        stream = self._streams[key][0] if key in self._streams else HiddenStream(SECRETS)
        shown = _with_text(delta, stream.feed(_text(delta)))
        if isinstance(shown, CallDelta) and shown.tool is not None:
            shown = msgspec.structs.replace(shown, tool=SECRETS.hidden_text(shown.tool))
        self._streams[key] = (stream, shown)
        return shown


def _text(delta: Live) -> str:
    if isinstance(delta, TextDelta | ReasoningDelta):
        return delta.text
    return delta.fragment if isinstance(delta, CallDelta) else ""


def _with_text(delta: Live, text: str) -> Live:
    if isinstance(delta, TextDelta | ReasoningDelta):
        return delta if text == delta.text else msgspec.structs.replace(delta, text=text)
    assert isinstance(delta, CallDelta), "only these carry text"
    return delta if text == delta.fragment else msgspec.structs.replace(delta, fragment=text)
