"""The arguments of tools: their types, from which the schemas are made that clients see, read strictly."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from windlass.protocol.unknown_fields import unknown_field
from windlass.protocol.wire_commands import WireError

T = TypeVar("T", bound=msgspec.Struct)

WAIT_S = 50
"""How long a call waits unless told otherwise: many clients give up after a minute."""
WAIT_MAX_S = 3_600
RECORDS = 50
RECORDS_MAX = 200

SessionId = Annotated[str, Meta(description="The id of a session.")]
WaitS = Annotated[
    int,
    Meta(
        ge=0,
        le=WAIT_MAX_S,
        description="How many seconds to wait for the end of the run. It goes on in any case: call wait again.",
    ),
]
Key = Annotated[
    str | None,
    Meta(
        description="A name for this message, of letters, digits, '_', '-' and '.'. Sent again under the same name, it "
        "is taken once: repeat a call with it if no answer came."
    ),
]


class RunAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is to do."""

    prompt: Annotated[str, Meta(description="What it is to do, in words.")]
    session_id: Annotated[
        str | None,
        Meta(description="The session to continue, or the id for a new one. Without it a new one is begun."),
    ] = None
    key: Key = None
    wait_s: WaitS = WAIT_S


class Say(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something said to a session."""

    session_id: SessionId
    text: Annotated[str, Meta(description="What to say.")]
    behavior: Annotated[
        Literal["steer", "follow_up"] | None,
        Meta(description="If it is at work: steer what it does, or have this follow; as its settings say, if neither."),
    ] = None
    key: Key = None
    wait_s: WaitS = WAIT_S


class Await(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to wait for."""

    session_id: SessionId
    wait_s: WaitS = WAIT_S


class Find(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list."""

    state: Annotated[
        Literal["new", "idle", "running", "asked", "sleeping", "left", "parked", "damaged"] | None,
        Meta(description="Only those in this state."),
    ] = None
    agent: Annotated[str | None, Meta(description="Only those of this agent.")] = None
    text: Annotated[str | None, Meta(description="Only those whose id, title or agent has this in it.")] = None
    limit: Annotated[int, Meta(ge=1, le=200, description="How many.")] = 20


class Look(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session."""

    session_id: SessionId


class ReadLog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a log."""

    session_id: SessionId
    after: Annotated[str | None, Meta(description="A cursor; what comes behind it is given.")] = None
    limit: Annotated[int, Meta(ge=1, le=RECORDS_MAX, description="How many records.")] = RECORDS


class GiveAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to what a session asks."""

    session_id: SessionId
    request_id: Annotated[str, Meta(description="The id of the request or question, as the session's view has it.")]
    decision: Annotated[
        Literal["answer", "decline", "deny", "approve"],
        Meta(
            description="answer or decline a question, deny a call. A call or a plan is approved by a person, whom the "
            "client asks; approve is only for clients that may not begin work."
        ),
    ]
    text: Annotated[str | None, Meta(description="The answer in words, or why not.")] = None
    selected: Annotated[tuple[str, ...], Meta(description="What is picked of a choice.")] = ()
    content: Annotated[dict[str, Any] | None, Meta(description="The content of a form.")] = None
    digest: Annotated[str | None, Meta(description="To approve: the digest of what was shown.")] = None


class Stop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to stop."""

    session_id: SessionId
    reason: Annotated[str, Meta(description="Why; it stays on record.")] = ""


def read(given: dict[str, Any] | None, kind: type[T]) -> T:
    """The arguments of a call. Raises `WireError` that names the one which is wrong."""
    plain = given or {}
    stray_field = unknown_field(plain, kind)
    if stray_field is not None:
        raise WireError(stray_field.path, stray_field.advice)
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        raise WireError(path.strip("`") or "$", message) from None


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of arguments."""
    schema = msgspec.json.schema_components([kind])[1][kind.__name__]
    whole = {name: value for name, value in schema.items() if name not in ("title", "description")}
    return {**whole, "properties": {name: _plain(field) for name, field in whole["properties"].items()}}


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """A field that may be left out, without saying that it may be null: some clients know no such thing."""
    others = [one for one in field.get("anyOf", ()) if one != {"type": "null"}]
    if len(others) != 1:
        return {**field, "enum": [one for one in field["enum"] if one is not None]} if "enum" in field else field
    kept = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
    return {**kept, **others[0]}
