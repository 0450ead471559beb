"""What goes wrong in a server, for whoever runs it: a line on stderr for each failure, with where it came from.

Its clients are told only that something failed: the reason may be about others."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType

from .terminal.visible_text import visible

CHARS_MAX = 20_000
"""Of one failure; of a longer one the beginning is left out, since the reason stands at its end."""
QUIET = "uvicorn.error"
"""Whose warnings are about what strangers send: nobody shall be able to fill a disk with them."""


class ServerLog(logging.Handler):
    """Writes failures to stderr as long as the block is open. Nothing in them reaches the terminal itself."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._quiet = logging.getLogger(QUIET)
        self._before = self._quiet.level

    def __enter__(self) -> ServerLog:
        logging.getLogger("windlass").addHandler(self)
        self._quiet.addHandler(self)
        self._quiet.setLevel(logging.ERROR)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("windlass").removeHandler(self)
        self._quiet.removeHandler(self)
        self._quiet.setLevel(self._before)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one failure."""
        said = self.format(record)
        if len(said) > CHARS_MAX:
            said = f"… {said[-CHARS_MAX:]}"
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        try:
            sys.stderr.write(visible(f"{when} {record.name}: {said}\n"))
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # nobody reads it: the server goes on
