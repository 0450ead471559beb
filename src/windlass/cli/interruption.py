"""Ctrl-C while a session works: the first one interrupts the run, a second one leaves the program, and a
third does not wait for that."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from windlass.cli.terminal.visible_text import visible
from windlass.events.errors import Refused, WindlassError
from windlass.runtime.api.termination import leave_after

from .exits import INTERRUPTED

if TYPE_CHECKING:
    from windlass.cli.screen.live_printer import Narrator
    from windlass.runtime.api.session import Session


class Interruption:
    """Ctrl-C interrupts the run, not the program; a second one leaves, and a third does not even wait for that. It is
    in force until everything is closed, so that none of them can tear a closing program apart."""

    def __init__(self, narrator: Narrator) -> None:
        self.session: Session | None = None
        self._narrator = narrator
        self._pressed = 0
        self._task = asyncio.current_task()
        self._sending: asyncio.Task[Any] | None = None

    def __enter__(self) -> Interruption:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._stop)
        leave_after(signal.SIGINT, 2, INTERRUPTED)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        if self._pressed:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program ends now, as it was asked to

    def _stop(self) -> None:
        self._pressed += 1
        if self._pressed > 2:
            os._exit(INTERRUPTED)  # the log is as good as after a crash
        elif self._pressed == 2 or self.session is None:
            self._leave()
        else:
            self._sending = asyncio.ensure_future(self._interrupt(self.session))
            self._narrator.after_key()
            self._narrator.note("(interrupting; Ctrl-C again leaves at once)", "yellow")

    def _leave(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _interrupt(self, session: Session) -> None:
        try:
            await session.interrupt("Ctrl-C")
        except Refused:
            return  # it has just ended by itself
        except WindlassError as error:
            self._narrator.note(f"(not interrupted: {visible(str(error))})", "red")
