"""The exceptions of tools, for whoever looks at a session: the model is told only that a tool failed."""

from __future__ import annotations

from windlass.cli import shell_lines
from windlass.cli.terminal.text import Paint
from windlass.cli.terminal.visible_text import spelt
from windlass.events.runs import RunStarted
from windlass.events.tools.calls import ToolFinished, ToolRequested
from windlass.runtime.operate.log_point import Point

from .person_requests import barred

LINES_MAX = 12
"""How many lines of a traceback are shown with a session; the last ones say most."""


def raised_lines(point: Point, at: str, paint: Paint) -> list[str]:
    """The last exception of a tool in the session's last run, and how to see all of them; nothing if none raised."""
    tools: dict[str, str] = {}
    last: ToolFinished | None = None
    for event in point.events.values():
        if isinstance(event, RunStarted):
            last = None
        elif isinstance(event, ToolRequested):
            tools[event.call_id] = event.tool
        elif isinstance(event, ToolFinished) and event.body is not None and event.body.private_error:
            last = event
    if last is None or last.body is None:
        return []
    name = spelt(f"{tools.get(last.call_id, 'a tool')} [{last.call_id}]")
    lines = (last.body.private_error or "").rstrip().split("\n")
    more = [] if len(lines) <= LINES_MAX else ["…"]
    whole = f"  windlass logs {shell_lines.word(point.key.session)} --full{at}"
    return ["", paint(f"{name} raised", "red"), *barred("\n".join([*more, *lines[-LINES_MAX:]]), paint.out), whole]
