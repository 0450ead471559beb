"""Commands as clients send them: one JSON object, read strictly.

What only the host may say (who gave a command, what it weighs, what a hook ruled) is no field here, and a field that no
command has is an error: a misspelt word must not be passed over. An error names the field and what to write instead.
"""

from __future__ import annotations

import difflib
import functools
from typing import Any

import msgspec

from windlass.events.base import Auth, Command, tag_of
from windlass.events.changes import ChangeReceived
from windlass.events.commands import PromptReceived, QueueEdited
from windlass.events.context import CompactReceived, UndoReceived
from windlass.events.errors import CodecError
from windlass.events.questions import AnswerReceived
from windlass.events.runs import CancelReceived, InterruptReceived, WakeReceived
from windlass.events.schedules import ScheduleReceived
from windlass.events.sessions import HandoffReceived, RewindReceived
from windlass.events.signals import SignalReceived
from windlass.events.skills import SkillReceived
from windlass.events.stored import codec
from windlass.events.stored.json_depth import NESTING_MAX, is_too_deep
from windlass.events.stored.record import UNREADABLE
from windlass.events.tools.calls import CallReceived, ResultReceived, ToolSettled
from windlass.events.tools.jobs import KillReceived
from windlass.events.tools.labels import LabelsDeclassified
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied
from windlass.events.tools.toolset import MountReceived, UnmountReceived
from windlass.events.trees.flows import FlowReceived
from windlass.events.trees.growth import NodesReceived
from windlass.events.trees.machines import MachineReceived

from .unknown_fields import unknown_field

SAID_BY_HOST = frozenset({"erased", "command_id", "actor", "auth"})
"""Fields of every command that a client does not send: its id comes beside it, who gave it is what its token says."""

WIRE_COMMANDS: dict[type[Command], frozenset[str]] = {
    PromptReceived: frozenset({"tokens", "bytes", "hooks", "origin"}),
    QueueEdited: frozenset({"tokens"}),
    InterruptReceived: frozenset({"tokens", "usage", "body"}),
    CancelReceived: frozenset({"tokens", "usage", "body"}),
    WakeReceived: frozenset(),
    PermissionApproved: frozenset(),
    PermissionDenied: frozenset(),
    AnswerReceived: frozenset({"tokens"}),
    CallReceived: frozenset(),
    ResultReceived: frozenset({"tokens", "bytes", "changes"}),
    ToolSettled: frozenset({"tokens"}),
    KillReceived: frozenset(),
    MountReceived: frozenset({"source"}),
    UnmountReceived: frozenset(),
    SignalReceived: frozenset({"tokens"}),
    ChangeReceived: frozenset(),
    HandoffReceived: frozenset(),
    RewindReceived: frozenset({"restored", "changes", "left"}),
    CompactReceived: frozenset(),
    UndoReceived: frozenset({"restored"}),
    SkillReceived: frozenset({"via", "call_id", "found", "failure", "most", "tokens", "bytes", "body"}),
    LabelsDeclassified: frozenset(),
    ScheduleReceived: frozenset(),
    FlowReceived: frozenset(),
    MachineReceived: frozenset(),
    NodesReceived: frozenset({"session", "labels"}),
}
"""The commands that clients may send, each with the fields that the host fills in."""

SAID_BY_HOST_WITHIN: dict[str, tuple[str, ...]] = {"CallReceived": ("body", "prepared")}
"""A field deeper inside of a command that the host fills in."""

UNREAD: dict[str, tuple[str, ...]] = {"PromptReceived": ("body", "attachments")}
"""What names files: they would be those of the machine that reads them, so a client sends their content instead."""

READ_AS = {"file": "content", "directory": "listing"}
"""What an attachment has once it was read, by its type."""

FILES_HERE = "these are files of the server's machine: send the content as blocks"

_BY_TAG = {tag_of(kind): kind for kind in WIRE_COMMANDS}


class WireError(CodecError):
    """JSON from a client that is not what it should be: where, and what to write instead."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.advice = message


def read_command(data: bytes, *, command_id: str, actor: str, auth: Auth) -> Command:
    """The command in a client's JSON, given by somebody whom the server knows. Raises `WireError`."""
    plain = read_object(data)
    kind = _kind_of(plain)
    said = plain.pop("command_id", command_id)
    if said != command_id:
        raise WireError("$.command_id", f"it is not the Idempotency-Key {command_id!r}: send one of them, or the same")
    _check_fields(plain, kind)
    return _decoded({**plain, "command_id": command_id, "actor": actor, "auth": auth})


def _decoded(whole: dict[str, Any]) -> Command:
    try:
        return codec.decode_command(msgspec.json.encode(whole))
    except CodecError as error:
        path, _, message = str(error).removeprefix("command: ").partition(": ")
        raise WireError(path, message) if message and path.startswith("$") else WireError("$", str(error)) from error
    except (UnicodeError, OverflowError) as error:
        raise WireError("$", f"it holds what no log can keep: {error}") from error


def read_delivered(data: bytes, *, command_id: str, actor: str, auth: Auth) -> Command:
    """The command that a client of this very package has encoded: what only the host may say is not refused but left
    out, and said anew. Files that are attached must have been read where they are. Raises `WireError`."""
    plain = read_object(data)
    kind = _kind_of(plain)
    for name in SAID_BY_HOST | WIRE_COMMANDS[kind]:
        plain.pop(name, None)
    outer, inner = SAID_BY_HOST_WITHIN.get(kind.__name__, ("", ""))
    if isinstance(plain.get(outer), dict):
        plain[outer].pop(inner, None)
    attached = _read_attachments(plain) if kind is PromptReceived else []
    command = read_command(msgspec.json.encode(plain), command_id=command_id, actor=actor, auth=auth)
    if not attached:
        return command
    whole = {**plain, "body": {**plain["body"], "attachments": attached}}
    _check_unknown(whole, kind)
    return _decoded({**whole, "command_id": command_id, "actor": actor, "auth": auth})


def _read_attachments(plain: dict[str, Any]) -> list[Any]:
    """What is attached to a prompt, taken out of it. Raises `WireError` for what would be read on this machine."""
    body = plain.get("body")
    attached = body.pop("attachments", None) if isinstance(body, dict) else None
    if not isinstance(attached, list):
        return []
    for one in attached:
        unread = READ_AS.get(str(one.get("type"))) if isinstance(one, dict) else ""
        if unread is not None and (not unread or one.get(unread) is None):
            raise WireError("$.body.attachments", FILES_HERE)
    return attached


def read_object(data: bytes) -> dict[str, Any]:
    """A JSON object from a client. Raises `WireError`."""
    if is_too_deep(data):
        raise WireError("$", f"nested deeper than {NESTING_MAX} levels")
    try:
        plain = msgspec.json.decode(data)
        codec.check_single_keys(data)
    except (*UNREADABLE, CodecError) as error:
        raise WireError("$", f"this is not the JSON that is wanted: {str(error).removeprefix('command: ')}") from error
    if not isinstance(plain, dict):
        raise WireError("$", "send one JSON object")
    return plain


def _kind_of(plain: dict[str, Any]) -> type[Command]:
    tag = plain.get("type")
    if not isinstance(tag, str) or tag not in _BY_TAG:
        near = difflib.get_close_matches(str(tag), _BY_TAG, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_BY_TAG)}"
        raise WireError("$.type", f"{tag!r} is no command that clients send: {hint}")
    return _BY_TAG[tag]


def _check_fields(plain: dict[str, Any], kind: type[Command]) -> None:
    for name in sorted(SAID_BY_HOST | WIRE_COMMANDS[kind]):
        if name in plain:
            raise WireError(f"$.{name}", "the server says this itself: leave it out")
    outer, inner = SAID_BY_HOST_WITHIN.get(kind.__name__, ("", ""))
    if inner and isinstance(plain.get(outer), dict) and plain[outer].get(inner) is not None:
        raise WireError(f"$.{outer}.{inner}", "the server says this itself: leave it out")
    outer, inner = UNREAD.get(kind.__name__, ("", ""))
    if inner and isinstance(plain.get(outer), dict) and plain[outer].get(inner):
        raise WireError(f"$.{outer}.{inner}", FILES_HERE)
    if kind is QueueEdited:
        _check_edits(plain)
    _check_unknown(plain, kind)


def _check_unknown(plain: dict[str, Any], kind: type[Command]) -> None:
    unknown = unknown_field(plain, kind)
    if unknown is not None:
        raise WireError(unknown.path, unknown.advice)


def _check_edits(plain: dict[str, Any]) -> None:
    """New texts of prompts name files no more than prompts do."""
    body = plain.get("body")
    edits = body.get("edits") if isinstance(body, dict) else None
    for name, edit in edits.items() if isinstance(edits, dict) else ():
        if isinstance(edit, dict) and edit.get("attachments"):
            raise WireError(f"$.body.edits.{name[:40]}.attachments", FILES_HERE)


@functools.cache
def client_fields(kind: type[Command]) -> tuple[str, ...]:
    """The fields of a command that clients send."""
    hidden = SAID_BY_HOST | WIRE_COMMANDS[kind]
    return tuple(name for name in kind.__struct_fields__ if name not in hidden)
