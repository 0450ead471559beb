"""The tools by which a model uses skills and reads their files. They run beside the session's owner."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.tools.calls import ResultBody
from windlass.events.values.blocks import JsonObject, Text
from windlass.skills.folder import FOLDER_BYTES_MAX, Unreadable, read
from windlass.tools.planes.outcome import Outcome, failed

if TYPE_CHECKING:
    from windlass.kernel.state import State

    from .session_skills import SessionSkills

READ_BYTES = 16 * 1024
READ_BYTES_MAX = 64 * 1024

SKILL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 200, "description": "The skill, by its name in the list of skills."},
        "arguments": {"type": "string", "maxLength": 4000, "description": "What its instructions are applied to."},
        "active": {"type": "boolean", "description": "False to leave a skill that is active."},
    },
    "required": ["name"],
    "additionalProperties": False,
}
FILE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "skill": {"type": "string", "maxLength": 200, "description": "An active skill, by its name."},
        "path": {"type": "string", "maxLength": 400, "description": "A file of it, such as references/forms.md."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to begin, in bytes."},
        "limit": {"type": "integer", "minimum": 1, "maximum": READ_BYTES_MAX, "description": "How many bytes."},
    },
    "required": ["skill", "path"],
    "additionalProperties": False,
}
SKILL_TOOLS: dict[str, tuple[str, JsonObject]] = {
    "skill": ("Load the instructions of a skill before you begin a task that fits it, or leave one.", SKILL_SCHEMA),
    "skill_file": ("Read a file of an active skill, page by page if it is large.", FILE_SCHEMA),
}


async def perform(name: str, args: JsonObject, call_id: str, skills: SessionSkills | None, state: State) -> Outcome:
    """Carries out one of these tools."""
    if skills is None:
        return failed("tool_unavailable", "this session has no skills here", "no skills")
    if name == "skill_file":
        return await skill_file(skills, state, **args)
    try:
        told = await skills.use_by_model(
            str(args["name"]), str(args.get("arguments", "")), call_id, active=bool(args.get("active", True))
        )
    except Refused as refusal:
        return failed("tool_arguments", str(refusal), "no such skill")
    return _said(told)


async def skill_file(
    skills: SessionSkills, state: State, skill: str, path: str, offset: int = 0, limit: int = READ_BYTES
) -> Outcome:
    """A page of a file of an active skill, if it is still what it was when the skill was found."""
    active = next((each for each in state.skills.active.values() if each.key.skill_name == skill), None)
    entry = next((each for each in skills.found.skills if active is not None and each.key == active.key), None)
    if active is None or entry is None or entry.digest != active.digest:
        return failed("tool_arguments", f"no skill {skill!r} is active here: use it first", "not active")
    known = next((file for file in entry.files if file.path == path), None)
    if known is None:
        files = ", ".join(file.path for file in entry.files[:50]) or "none"
        return failed("tool_arguments", f"the skill has no file {path!r}: there are {files}", "no such file")
    try:
        data = await asyncio.to_thread(read, entry.folder, path, FOLDER_BYTES_MAX)
    except Unreadable as problem:
        return failed("tool_arguments", str(problem), "not readable")
    if hashlib.blake2b(data, digest_size=16).hexdigest() != known.digest:
        return failed("tool_unavailable", f"{path!r} has changed since the skill was found", "changed")
    page = data[offset : offset + limit]
    if b"\0" in page:
        return failed("tool_arguments", f"{path!r} is no text ({len(data)} bytes)", "no text")
    end = offset + len(page)
    more = f"; the next page begins at {end}" if end < len(data) else ""
    told = _said(f"[{path}, bytes {offset} to {end} of {len(data)}{more}]\n{page.decode('utf-8', 'replace')}")
    return msgspec.structs.replace(told, labels=skills.found.labels(skill))


def _said(text: str) -> Outcome:
    return Outcome(body=ResultBody(content=(Text(text=text),)), size=len(text))
