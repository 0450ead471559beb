"""The labels of a session in lines for people: what it has seen, since when, and what brought it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.cli.terminal.text import one_line
from windlass.cli.terminal.visible_text import spelt
from windlass.runtime.operate.label_sources import sources

if TYPE_CHECKING:
    from windlass.events.tools.labels import LabelsDeclassified, LabelsJoined, Provenance
    from windlass.runtime.operate.log_point import Point

SUBJECT_CHARS_MAX = 80


def lines(point: Point) -> list[str]:
    """Each label with its source; whether the session is quarantined, and since when there is a way out."""
    labels = [since(told.found, told.subject) for told in sources(point)]
    if point.state.labels.quarantined:
        labels.insert(0, "quarantined: it only reads, and what it says is untrusted")
    out = point.state.labels.way_out
    return [*labels, since(out, "").replace("egress", "a way out", 1)] if labels and out is not None else labels


def since(provenance: Provenance, subject: str) -> str:
    """One label: `private since c4.0 (read secrets.csv)`."""
    what = " ".join(part for part in (spelt(provenance.tool), one_line(subject, SUBJECT_CHARS_MAX)) if part)
    return f"{spelt(provenance.label)} since {spelt(provenance.source)}{f' ({what})' if what else ''}"


def joined(event: LabelsJoined) -> str:
    """What a session carries on from here."""
    return "; ".join(since(provenance, "") for provenance in event.labels)


def declassified(event: LabelsDeclassified) -> str:
    """What was taken away, by whom and why."""
    return f"{', '.join(map(spelt, event.labels))} by {spelt(event.actor) or 'someone'}: {spelt(event.reason)}"
