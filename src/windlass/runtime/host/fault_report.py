"""Tells the program of faults in background work that nobody awaits."""

from __future__ import annotations

import asyncio


class FaultReport:
    """Tells the loop's exception handler, which logs it unless the program has its own; the same fault in a row is told
    once."""

    def __init__(self) -> None:
        self._last = ""

    def tell(self, what: str, error: BaseException) -> None:
        message = f"windlass: {what}: {type(error).__name__}: {error}"
        if message != self._last:
            self._last = message
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
