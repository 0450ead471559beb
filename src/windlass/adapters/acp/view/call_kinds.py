"""What kind of call an editor shows: how it is drawn, which files it is about, and in few words what it does."""

from __future__ import annotations

import os
from typing import Any

from windlass.events.values.blocks import JsonObject
from windlass.events.values.tools import ToolSpec

BUILTIN = "builtin"
BY_NAME = {
    **dict.fromkeys(("list", "glob", "grep"), "search"),
    **dict.fromkeys(("write", "edit", "patch", "make_directory"), "edit"),
    "move": "move",
    "remove": "delete",
    "kill_job": "execute",
}
"""Built-in tools that their kind of permission does not tell apart."""
BY_KIND = {"shell": "execute", "write": "edit", "read": "read", "url": "fetch"}
TITLE_CHARS_MAX = 200
PATHS_MAX = 50


def call_kind(tool: str, spec: ToolSpec | None) -> str:
    """The kind of a call. What is not known to only read is not called so: clients let some kinds pass unasked."""
    if spec is None:
        return "other"
    if spec.runs == "kernel":
        return "think"
    if spec.source == BUILTIN and tool in BY_NAME:
        return BY_NAME[tool]
    return BY_KIND.get(spec.kind, "other")


def title_of(tool: str, args: JsonObject) -> str:
    """What a call does, in one line."""
    if not args:
        return tool
    command = args.get("command")
    if isinstance(command, str) and command.strip():
        return _line(command)
    for name in ("path", "pattern", "url", "query"):
        if isinstance(args.get(name), str):
            return _line(f"{tool} {args[name]}")
    return tool


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARS_MAX else f"{line[: TITLE_CHARS_MAX - 1]}…"


def locations_of(spec: ToolSpec | None, args: JsonObject, cwd: str) -> list[JsonObject]:
    """The files that a call of a file tool names, so that an editor can follow along."""
    if spec is None or spec.kind not in ("read", "write"):
        return []
    edits = args.get("edits")
    given = [args.get("path"), args.get("to")]
    given += [edit.get("path") for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []
    paths = list(dict.fromkeys(path for path in given if isinstance(path, str) and path))[:PATHS_MAX]
    line = args.get("offset") if spec.source == BUILTIN and len(paths) == 1 else None
    return [place(path, cwd, line) for path in paths]


def place(path: str, cwd: str, line: Any = None) -> JsonObject:
    """A place in a file."""
    made: JsonObject = {"path": absolute(path, cwd)}
    return {**made, "line": line} if isinstance(line, int) and not isinstance(line, bool) and line > 0 else made


def absolute(path: str, cwd: str) -> str:
    """A path as the protocol wants it."""
    return os.path.normpath(os.path.join(cwd, path))
