"""What a call of a file tool is about, for people, patterns and policies: the path it names, and where links of its
root lead from there. Nothing is opened here."""

from __future__ import annotations

import os
import posixpath

from windlass.events.tools.permissions import ReadDetail
from windlass.events.values.blocks import JsonObject
from windlass.tools.description import CallPlace, Description
from windlass.tools.link_targets import with_targets

from .exclusion import exclusion_of
from .roots import Roots
from .shown_names import counted, shown


def read_description(roots: Roots, tool: str, args: JsonObject, place: CallPlace) -> Description:
    """A call of one of the reading tools beneath a root. What is read is the affair of the call itself, which stays
    beneath the root wherever links lead by then."""
    root, named = roots.path(place.folder), named_path(args["path"])
    whole = os.fsencode(os.path.join(root, args["path"] if named is None else named)).decode("utf-8", "replace")
    detail = ReadDetail(path=whole, intention=_intention(tool, args))
    paths, excluded = with_targets((whole,), root), _excluded(whole, root, place)
    return Description(subject=named or "", detail=detail, root=root, paths=paths, excluded=excluded)


def _excluded(path: str, root: str, place: CallPlace) -> str | None:
    exclusion = exclusion_of(place.exclude)
    pattern = exclusion.covering(path, root) if exclusion is not None else None
    return None if pattern is None else f"the policy excludes {pattern!r}: no model may see what is there"


def named_path(path: str) -> str | None:
    """A path beneath the root in its shortest form; None for one whose name does not say where it leads."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        return None
    return posixpath.normpath(path or ".")


def _intention(tool: str, args: JsonObject) -> str:
    match tool:
        case "list":
            return f"list it, {counted(args['depth'], 'level')} deep"
        case "read":
            return f"read {counted(args['limit'], 'line')} from line {args['offset']:,} on"
        case "glob":
            return f"find names that match {shown(args['pattern'])}"
    files = f" in files that match {shown(args['glob'])}" if args.get("glob") else ""
    return f"search for {shown(args['pattern'])}{files}"
