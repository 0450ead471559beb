"""Diagrams of schedules: the plan, the times that come next, and what they begin. Drawn from the plan alone."""

from __future__ import annotations

import datetime
import itertools

from windlass.events.values.plans import SchedulePlan
from windlass.runtime.diagrams import mermaid as text
from windlass.runtime.diagrams import svg as picture
from windlass.runtime.diagrams.boxes import Box, Link

from . import times

TIMES_DRAWN = 3
Drawn = tuple[list[Box], list[Link]]


def mermaid(name: str, plan: SchedulePlan, after_ms: int, *, status: str = "active", last: str = "") -> str:
    """A schedule as Mermaid text, with the times that come after a moment. `last` is the session that it began last."""
    return text.mermaid(*drawn(name, plan, after_ms, status=status, last=last))


def svg(name: str, plan: SchedulePlan, after_ms: int, *, status: str = "active", last: str = "") -> str:
    """The same as SVG."""
    return picture.svg(*drawn(name, plan, after_ms, status=status, last=last), "a schedule")


def drawn(name: str, plan: SchedulePlan, after_ms: int, *, status: str, last: str) -> Drawn:
    """What the diagram shows. A schedule that is paused or removed has no times."""
    boxes = [Box("plan", name if status == "active" else f"{name} ({status})", when(plan), _colour(status), "round")]
    links = []
    coming = times.times_after(plan, max(after_ms, plan.start_ms - 1)) if status == "active" else iter(())
    for number, at_ms in enumerate(itertools.islice(coming, TIMES_DRAWN)):
        boxes.append(_time(f"time{number}", plan, at_ms))
        links.append(Link("plan", f"time{number}", "" if number else f"missed: {plan.misfire}"))
        links.append(Link(f"time{number}", "target", "" if number else f"overlap: {plan.overlap}"))
    said = f"signal {plan.signal}" if plan.signal else " ".join(plan.prompt.split())
    boxes.append(Box("target", f"session {plan.session}" if plan.session else "a new session each", said))
    if len(links) == 0:
        links.append(Link("plan", "target", optional=True))
    if last and not plan.session:
        boxes.append(Box("last", last, "begun last", "done"))
        links.append(Link("target", "last", optional=True))
    return boxes, links


def when(plan: SchedulePlan) -> str:
    """When it begins something, in a few words."""
    return f"{plan.cron} {plan.timezone}" if plan.cron else f"every {(plan.every_ms or 0) / 1000:g} s"


def _time(name: str, plan: SchedulePlan, at_ms: int) -> Box:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, times.zone_of(plan.timezone))
    exact = "seconds" if at.second else "minutes"
    day, offset = at.replace(tzinfo=None).isoformat(sep=" ", timespec=exact), at.isoformat()[-6:]
    return Box(name, day, f"{plan.timezone}, {offset}")


def _colour(status: str) -> str:
    return {"paused": "pausing", "removed": "cancelled"}.get(status, "")
