"""Server-sent events, cut out of network chunks. Works on bytes, so that a cut inside a character cannot hurt."""

from __future__ import annotations

LINE_BYTES_MAX = 32 * 1024 * 1024


class LineTooLong(Exception):
    """A line grew past its bound."""


class EventParser:
    """Gives the data of each complete event. Names, ids and comments are dropped: every format that we speak says in
    its data what an event is. Nothing of an event without its closing blank line is ever given out."""

    __slots__ = ("_data", "_held", "_held_bytes", "_line_max")

    def __init__(self, line_max: int = LINE_BYTES_MAX) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._data: list[bytes] = []
        self._line_max = line_max

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes."""
        end = chunk.rfind(b"\n")
        if end < 0 and b"\r" not in chunk:
            self._hold(chunk)
            return []
        if self._held:
            self._held.append(chunk)
            chunk = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
        if b"\r" in chunk:
            chunk = self._plain_ends(chunk)
        if self._data:
            lines = chunk.split(b"\n")
            rest = lines.pop()
            if rest:
                self._hold(rest)
            return self._events(lines)
        return self._whole_events(chunk)

    def _whole_events(self, chunk: bytes) -> list[bytes]:
        """The same where no event is begun: most are one line between blank ones, and are cut out in one go."""
        if chunk[:6] == b"data: " and chunk[-2:] == b"\n\n":
            # Most chunks are such events and nothing else; if no line ends within one of them, this is all.
            events = chunk[6:-2].split(b"\n\ndata: ")
            if b"".join(events).find(b"\n") < 0:  # quicker than to count
                return events
        payloads: list[bytes] = []
        *whole, rest = chunk.split(b"\n\n")
        for event in whole:
            if event[:6] == b"data: " and event.find(b"\n") < 0:  # `in` makes an exception for bytes before Python 3.12
                payloads.append(event[6:])
            else:
                payloads += self._events([*event.split(b"\n"), b""])
        *lines, rest = rest.split(b"\n")
        if rest:
            self._hold(rest)
        return payloads + self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        data = self._data
        payloads: list[bytes] = []
        for line in lines:
            if not line:
                if data:
                    payloads.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
        return payloads

    def _plain_ends(self, chunk: bytes) -> bytes:
        """Line ends as LF. A CR at the very end waits: its LF may be in the next chunk."""
        if chunk.endswith(b"\r"):
            self._hold(b"\r")
            chunk = chunk[:-1]
        chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._held:
            rest = chunk.rpartition(b"\n")[2]
            self._held.insert(0, rest)
            self._held_bytes += len(rest)
            chunk = chunk[: len(chunk) - len(rest)]
        return chunk

    def _hold(self, piece: bytes) -> None:
        self._held.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > self._line_max:
            raise LineTooLong(f"a line of the stream is longer than {self._line_max} bytes")
