"""What a call would change, worked out from its arguments and from what the files hold now; nothing is written here.

The same plan is made twice: when a call is described, and when it runs. What it rests on (which contents, which
results) is recorded with the first one, so that the second can tell whether it still is the change that somebody
agreed to."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from windlass.events import known_types
from windlass.events.values.blocks import Value
from windlass.tools.files.content import binary_kind, chunks
from windlass.tools.files.root import Refusal, Root
from windlass.tools.files.shown_names import shown, size

from .diffs import line_counts, unified
from .exact_text import replaced
from .places import Place

CONTENT_BYTES_MAX = 2 * 1024 * 1024
"""The largest file that is changed by these tools."""
EDITS_MAX = 200
FILES_MAX = 32


class TextEdit(Value, frozen=True, kw_only=True):
    """One replacement of a patch. An empty `old` makes a file that must not be there yet."""

    path: str
    old: str
    new: str
    all: bool = False


class Change(NamedTuple):
    """One file: what it holds and what it is to hold; None is no file."""

    place: Place
    before: bytes | None
    after: bytes | None
    about: os.stat_result | None

    @property
    def operation(self) -> Literal["create", "update", "delete"]:
        return "create" if self.before is None else "delete" if self.after is None else "update"

    @property
    def diff(self) -> str:
        return unified(self.place.path, self.before, self.after)


class Basis(Value, frozen=True):
    """What a change of one file rests on: its path, and the digests of what it held and of what it is to hold."""

    path: str
    before: str | None
    after: str | None
    added: int = 0
    removed: int = 0


def rests_on(change: Change) -> Basis:
    """What one change rests on."""
    return Basis(
        change.place.shown, digest(change.before), digest(change.after), *line_counts(change.before, change.after)
    )


def basis_of(changes: list[Change]) -> str:
    """What a plan rests on, as it is recorded."""
    return msgspec.json.encode([rests_on(change) for change in changes]).decode()


def read_basis(text: str) -> dict[str, Basis]:
    """The same, read again."""
    return {one.path: one for one in known_types.decode(text, list[Basis])}


def digest(data: bytes | None) -> str | None:
    """The name of a content, as blobs are named."""
    return None if data is None else "sha256:" + hashlib.sha256(data).hexdigest()


def current(place: Place, folder: int | None = None) -> tuple[bytes | None, os.stat_result | None]:
    """What a file holds now; None if there is none. Raises `Refusal` for what is no regular file, or too large."""
    place.check()
    with contextlib.ExitStack() as stack:
        if folder is None:
            try:
                folder = stack.enter_context(place.opened())
            except Refusal as error:
                if error.code == "not_found":
                    return None, None
                raise
        about = place.about(folder)
        if about is None:
            return None, None
        place.check_kind(about, folder)
        try:
            fd = place.root.child_file(folder, place.name)
        except OSError as error:
            raise place.refused(error) from None
        try:
            about = os.fstat(fd)
            data = b"".join(chunks(fd, CONTENT_BYTES_MAX + 1))
        finally:
            os.close(fd)
    if len(data) > CONTENT_BYTES_MAX:
        told = f"{shown(place.path)} has more than the {size(CONTENT_BYTES_MAX)} that these tools change"
        raise Refusal(told, code="too_large")
    return data, about


def planned_write(root: Root, path: str, content: str, seen: Callable[[os.stat_result], bool]) -> list[Change]:
    """A whole file. One that is there must be what the session has read."""
    place = Place(root, path)
    before, about = current(place)
    if about is not None and not seen(about):
        told = f"{shown(path)} is there already, and is not what was last read here"
        raise Refusal(told, code="not_read", hint="read it first, or use edit to change a part of it")
    return [Change(place, before, _encoded(content, path), about)]


def planned_edit(root: Root, path: str, old: str, new: str, *, every: bool) -> list[Change]:
    """One replacement in a file that is there."""
    return planned_patch(root, [TextEdit(path=path, old=old, new=new, all=every)], makes=False)


def planned_patch(root: Root, edits: list[TextEdit], *, makes: bool = True) -> list[Change]:
    """Replacements in several files, each in what the ones before it left."""
    if not edits or len(edits) > EDITS_MAX:
        raise Refusal(f"{len(edits)} edits: give 1 to {EDITS_MAX}", code="bad_patch")
    changes: dict[str, Change] = {}
    for edit in edits:
        place = Place(root, edit.path)
        change = changes.get(place.path)
        if change is None:
            before, about = current(place)
            change = Change(place, before, before, about)
        changes[place.path] = change._replace(after=_edited(change, edit, makes=makes))
    if len(changes) > FILES_MAX:
        raise Refusal(f"{len(changes)} files in one patch: at most {FILES_MAX}", code="bad_patch")
    return list(changes.values())


def _edited(change: Change, edit: TextEdit, *, makes: bool) -> bytes:
    place, data = change.place, change.after
    if not edit.old:
        if data is not None or not makes:
            hint = "give the text to replace; an empty one makes a new file, in a patch" if makes else None
            raise Refusal(f"no text to replace is given for {shown(place.path)}", code="no_match", hint=hint)
        return _encoded(edit.new, place.path)
    if data is None:
        hint = "use list or glob to see what is there, or write to make it"
        raise Refusal(f"there is no {shown(place.path)}", code="not_found", hint=hint)
    kind = binary_kind(data)
    if kind is not None:
        raise Refusal(f"{shown(place.path)} is not text ({kind})", code="not_text")
    after = replaced(data, edit.old, edit.new, every=edit.all, path=place.path)
    if len(after) > CONTENT_BYTES_MAX:
        raise Refusal(f"{shown(place.path)} would have more than {size(CONTENT_BYTES_MAX)}", code="too_large")
    return after


def planned_remove(root: Root, path: str) -> list[Change]:
    """A file that goes."""
    place = Place(root, path)
    before, about = current(place)
    if before is None:
        raise Refusal(f"there is no {shown(path)}", code="not_found", hint="use list or glob to see what is there")
    return [Change(place, before, None, about)]


def _encoded(content: str, path: str) -> bytes:
    data = content.encode("utf-8", "surrogatepass")
    if len(data) > CONTENT_BYTES_MAX:
        raise Refusal(f"{shown(path)} would have more than {size(CONTENT_BYTES_MAX)}", code="too_large")
    return data
