"""What is attached to prompts, in both directions."""

from __future__ import annotations

import pathlib
from typing import Any, Literal

from windlass.events.errors import UsageError
from windlass.events.values.blocks import (
    AnyAttachment,
    DirectoryAttachment,
    Document,
    DocumentAttachment,
    FileAttachment,
    Image,
    ImageAttachment,
    JsonObject,
    LineRange,
    Position,
    ReferenceAttachment,
    SelectionAttachment,
)

from .fold import without_none

REFERENCES: dict[str, Literal["issue", "pull_request", "discussion"]] = {
    "issue": "issue",
    "pr": "pull_request",
    "discussion": "discussion",
}
_NAMES = {ours: theirs for theirs, ours in REFERENCES.items()}


def attachment_form(given: AnyAttachment) -> JsonObject:
    """An attachment as clients are told of it; what was read of it stays here."""
    match given:
        case FileAttachment():
            lines = {"start": given.lines.start, "end": given.lines.end} if given.lines is not None else None
            name = given.name or pathlib.PurePath(given.path).name
            return without_none(type="file", path=given.path, displayName=name, lineRange=lines)
        case DirectoryAttachment():
            name = given.name or pathlib.PurePath(given.path).name
            return {"type": "directory", "path": given.path, "displayName": name}
        case SelectionAttachment():
            span = {"start": _place(given.start), "end": _place(given.end)}
            name = given.name or pathlib.PurePath(given.path).name
            return {
                "type": "selection",
                "filePath": given.path,
                "displayName": name,
                "text": given.text,
                "selection": span,
            }
        case ReferenceAttachment():
            return {
                "type": "github_reference",
                "number": given.number or 0,
                "title": given.title or "",
                "referenceType": _NAMES[given.kind],
                "state": given.state or "",
                "url": given.url,
            }
        case ImageAttachment(image=image):
            return without_none(type="blob", mimeType=image.media_type, data=image.data, displayName=given.name)
        case DocumentAttachment(document=document):
            return without_none(type="blob", mimeType=document.media_type, data=document.data, displayName=given.name)


def _place(at: Position) -> JsonObject:
    return {"line": at.line, "character": at.character}


def attachment_of(given: dict[str, Any], folder: str) -> AnyAttachment:
    """An attachment as a client sends it. Paths are from the session's folder. Raises `UsageError` for a kind that
    has no counterpart here."""
    name = given.get("displayName")
    match given.get("type"):
        case "file":
            lines = given.get("lineRange")
            span = LineRange(start=lines["start"], end=lines["end"]) if lines else None
            return FileAttachment(path=_beneath(folder, given["path"]), name=name, lines=span)
        case "directory":
            return DirectoryAttachment(path=_beneath(folder, given["path"]), name=name)
        case "selection":
            span_of = given.get("selection") or {}
            start, end = (Position(**span_of.get(at, {"line": 0, "character": 0})) for at in ("start", "end"))
            text = given.get("text") or ""
            return SelectionAttachment(path=given["filePath"], text=text, start=start, end=end, name=name)
        case "github_reference":
            return ReferenceAttachment(
                kind=REFERENCES[given["referenceType"]],
                url=given["url"],
                number=given.get("number"),
                title=given.get("title"),
                state=given.get("state"),
            )
        case "blob" if str(given.get("mimeType", "")).startswith("image/"):
            return ImageAttachment(image=Image(media_type=given["mimeType"], data=given["data"]), name=name)
        case "blob":
            document = Document(media_type=given["mimeType"], name=name, data=given["data"])
            return DocumentAttachment(document=document, name=name)
        case other:
            raise UsageError(f"attachments of type {other!r} are not taken here: send a file, a selection or a blob")


def _beneath(folder: str, path: str) -> str:
    return str(pathlib.Path(folder, path))
