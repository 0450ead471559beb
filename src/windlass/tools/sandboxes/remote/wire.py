"""What a runtime and a remote worker say to each other over HTTP. A token goes with every request; nothing that comes
is believed before it is checked."""

from __future__ import annotations

import msgspec

from windlass.tools.sandboxes.sandbox import ProcessResult

PREFIX = "/v1"
BODY_BYTES_MAX = 32 * 1024 * 1024
"""The largest request: a process with all its input, or a file."""
LINE_BYTES_MAX = 8 * 1024 * 1024
"""The longest line of an answer: the end of a process, with what is kept of both outputs."""
BEAT_S = 5.0
"""How often a worker says that a process still runs."""
SILENCE_S = 30.0
"""After so long without a word a connection is taken for broken, by either side."""
TOKEN_CHARS_MIN = 16
BOOT_HEADER = "x-windlass-boot"
"""Which life of the worker a request is for: one that was meant for another is refused, so that nothing runs twice."""
ATTACH_HEADER = "x-windlass-attach"
"""Says that a process was asked for before: it is not started, whatever became of it."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox that is wanted: for a session, over a folder beneath the worker's root."""

    session: str
    folder: str = "."
    own: bool = False
    """Whether the session gets a folder of its own beneath that one."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox that is open, and the life of the worker that has it."""

    boot: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was not done."""

    message: str
    code: str = "refused"
    hint: str | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of what an answer to a run is made of."""


class Beat(Line, frozen=True, kw_only=True, tag="beat"):
    """It still runs."""


class Wrote(Line, frozen=True, kw_only=True, tag="wrote"):
    """What the process wrote, as it came."""

    stream: int
    data: bytes


class Ended(Line, frozen=True, kw_only=True, tag="ended"):
    """How it ended: by a result, or by a refusal."""

    result: ProcessResult | None = None
    refusal: Refusal | None = None


AnyLine = Beat | Wrote | Ended

_lines: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


def line(message: Line) -> bytes:
    """A line as it is sent."""
    return msgspec.json.encode(message) + b"\n"


def read_line(data: bytes) -> AnyLine:
    """A line that came. Raises `msgspec.DecodeError` for what is none."""
    return _lines.decode(data)
