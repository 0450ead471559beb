"""What a call of a writing tool is about: the places that it would change, the whole difference, and what it rests on.

The files are read here, by the descriptors that hold the call itself beneath its root; nothing is written."""

from __future__ import annotations

from typing import NamedTuple

from windlass.events.tools.permissions import WriteDetail
from windlass.tools.context import ToolError
from windlass.tools.description import Description
from windlass.tools.files.protected_names import Found
from windlass.tools.files.root import Refusal
from windlass.tools.files.shown_names import counted, shown

from .change_plan import Change, basis_of
from .diffs import bounded
from .exact_text import NotThere
from .places import Place

CONTENT_SHOWN_MAX = 50_000
"""The longest new content that is shown beside its diff."""
PATHS_SHOWN_MAX = 60
PRIVATE_CODES = frozenset({"protected", "content_excluded"})


class Planned(NamedTuple):
    """What a tool worked out for a call: what it does in words, where, and what changes."""

    intention: str
    places: list[Place]
    diff: str = ""
    basis: str = ""
    new_content: str | None = None
    asked: Found | None = None
    """Why it may not be done unasked, if more than its places says so."""


def of_changes(intention: str, changes: list[Change], new_content: str | None = None) -> Planned:
    """Changes of contents."""
    diff = "".join(change.diff for change in changes)
    shown_content = new_content if new_content is not None and len(new_content) <= CONTENT_SHOWN_MAX else None
    return Planned(intention, [change.place for change in changes], diff, basis_of(changes), shown_content)


def description(planned: Planned) -> Description:
    """A call that can be made."""
    diff, whole = bounded(planned.diff)
    places = planned.places
    paths = tuple(place.shown_whole for place in places)
    asked = planned.asked or next(
        (protection for place in places if (protection := place.protection()) is not None), None
    )
    if len(paths) > PATHS_SHOWN_MAX:
        return Description(unclear=f"the call changes {len(paths)} files", basis=planned.basis)
    left_out = "" if whole else "; the difference is too long to be shown whole, so this can only be approved once"
    alone = len(places) == 1 and whole and asked is None
    return Description(
        subject=places[0].shown if alone else "",
        detail=WriteDetail(
            path=paths[0] if len(paths) == 1 else f"{counted(len(paths), 'file')}: {', '.join(paths)}",
            intention=planned.intention + left_out,
            diff=diff,
            new_content=planned.new_content,
            session_approval_offered=whole and asked is None,
        ),
        paths=paths,
        writes=paths,
        sensitive=None if asked is None else f"{asked.name} may not be changed unasked: {asked.why}",
        basis=planned.basis,
    )


def refusal(places: list[Place], error: ToolError) -> Description:
    """A call that cannot be made: one that nobody may allow, or one that would come to nothing."""
    paths = tuple(place.shown_whole for place in places)
    if isinstance(error, Refusal) and error.code in PRIVATE_CODES:
        return Description(subject="", paths=paths, writes=paths, excluded=error.message)
    told = error.plain if isinstance(error, NotThere) else error.told
    detail = WriteDetail(
        path=paths[0] if paths else shown("?"), intention=f"this would fail: {told}", session_approval_offered=False
    )
    return Description(subject="", detail=detail, paths=paths, writes=paths, futile=told.replace("\n", "; "))
