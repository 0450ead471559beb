"""The five timeouts of a model request, as one value."""

from __future__ import annotations

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Value

CONNECT_S = 10.0
HEADERS_S = 60.0
FIRST_OUTPUT_S = 120.0
IDLE_S = 120.0
TOTAL_S = 900.0


class Timeouts(Value, frozen=True, kw_only=True):
    """How long each part of a request may take, in seconds: until connected, until the status line (connecting
    included), until the first output, between two outputs (pings are no output), and in all. A request that does not
    stream sends its status only when the whole answer is written, so there the first two waits are added up."""

    connect: float = CONNECT_S
    headers: float = HEADERS_S
    first_output: float = FIRST_OUTPUT_S
    idle: float = IDLE_S
    total: float = TOTAL_S

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise UsageError(f"timeout {name!r} must be more than 0 seconds, got {getattr(self, name)!r}")


DEFAULT_TIMEOUTS = Timeouts()
