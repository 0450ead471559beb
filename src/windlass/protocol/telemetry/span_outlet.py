"""Where spans leave the process: an exporter of the OpenTelemetry SDK, called in threads, one batch after the other.

It may block, raise or never come back: nobody but the next batch waits for it, and the end of the process does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any


class SpanOutlet:
    """Hands batches to one exporter, whichever runtime they come from."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self._turn = threading.Lock()
        """Held in the thread: one that does not come back is waited for by the next, and by no loop."""

    async def send(self, spans: Sequence[Any]) -> str:
        """Has a batch exported. Gives why it was not taken; empty if it was."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        def export() -> Any:
            with self._turn:
                return self._exporter.export(spans)

        try:
            taken = await in_a_thread(export)
        except Exception as error:  # whatever somebody's exporter raises: the batch is offered again
            return f"{type(error).__name__}: {error}"
        return "" if taken is SpanExportResult.SUCCESS else "the exporter says that it failed"


async def in_a_thread(work: Callable[[], Any]) -> Any:
    """Does what may block, in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def told(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(told, result, error)

    threading.Thread(target=run, name="windlass:telemetry", daemon=True).start()
    return await done
