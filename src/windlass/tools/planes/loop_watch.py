"""Notices an async tool that holds up the event loop: everything else in the process waits for it, and says nothing.

The loop's side costs two assignments for each step of a tool. A thread looks now and then, while tools run, whether the
step is still the one that it saw the last time; it can say so even if the step never ends.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.tools.context import ToolContext

LOOK_S = 0.5
LOOKS = 2
"""A step that is seen so often in a row, `LOOK_S` apart, is named."""
IDLE_S = 10.0
"""How long the thread waits for the next tool before it ends."""

logger = logging.getLogger("windlass.tools")


class LoopWatch:
    """Watches the tools of one event loop."""

    __slots__ = ("_begun", "_lock", "_looks", "_thread", "context", "loop_thread", "running", "step")

    def __init__(self, *, looks: bool = True) -> None:
        """Without `looks` nobody looks, which is for simulations."""
        self._looks = looks
        self.step = 0
        self.context: ToolContext | None = None
        """The call whose step the loop is in just now."""
        self.running = 0
        """How many async tools have begun and not ended."""
        self.loop_thread = 0
        self._lock = threading.Lock()
        self._begun = threading.Event()
        """Set as long as there is something to look at. Only the thread clears it, some time after the last tool: most
        tools end at once, and each would have to wake it."""
        self._thread: threading.Thread | None = None

    def begins(self) -> None:
        """An async tool begins. On the loop."""
        self.running += 1
        if self._looks and not self._begun.is_set():
            self.loop_thread = threading.get_ident()
            self._begun.set()
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._look, name="windlass-loop-watch", daemon=True)
                    self._thread.start()

    def ends(self) -> None:
        """It has ended. On the loop."""
        self.running -= 1

    def _look(self) -> None:
        seen, times = 0, 0
        while True:
            if not self._begun.wait(IDLE_S):
                with self._lock:
                    if not self._begun.is_set():
                        self._thread = None
                        return
            step, context = self.step, self.context
            times = times + 1 if context is not None and step == seen else 0
            seen = step
            if context is not None and times == LOOKS:
                self._tell(context)
            threading.Event().wait(LOOK_S)
            if self.running == 0:
                self._begun.clear()
                if self.running:  # one began before it was cleared, and saw it set
                    self._begun.set()

    def _tell(self, context: ToolContext) -> None:
        where = _innermost(self.loop_thread)
        told = f"the async tool {context.tool!r} holds up the event loop{where}: nothing else goes on until it awaits"
        logger.warning("session %s, call %s: %s", context.session, context.call_id, told)
        context.notice("loop_blocked", told)


def _innermost(thread: int) -> str:
    """Where a thread is just now, in words."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    last = traceback.extract_stack(frame, limit=1)[-1]
    return f" ({last.name} at line {last.lineno} of {last.filename})"
