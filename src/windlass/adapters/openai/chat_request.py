"""A request for a chat completion: a whole history, cut into what is known by now and what is new."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from windlass.protocol.wire_commands import WireError, read_object
from windlass.server.http_call import Call
from windlass.tools.tool import AnyTool, external_tool

from .response_request import QUESTION_TOOL, wrong

Json = dict[str, Any]
APPROVAL_TOOL = "request_approval"
"""The function that clients are called with when a person must allow a call of the agent's."""
ROLES = ("system", "developer", "user", "assistant", "tool")
DIGEST_CHARS = 32


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken of a request for a chat completion. All else that such requests say (temperatures, limits, seeds)
    is passed over: the agent has its own settings."""

    model: str
    """The name of an agent."""
    messages: list[Json]
    stream: bool | None = None
    stream_options: Json | None = None
    tools: list[Json] | None = None
    n: int | None = None
    response_format: Json | None = None


async def read_chat(call: Call) -> ChatRequest:
    """The request that is sent. It holds a whole history, so it may be as large as a blob. Raises `WireError`."""
    plain = read_object(await call.json_bytes(call.limits.blob_bytes) or b"{}")
    try:
        request = msgspec.convert(plain, ChatRequest)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at ")
        raise WireError(path.strip("`") or "$", why) from None
    if request.n not in (None, 1):
        raise wrong("n", "an agent gives one answer: leave it out")
    if request.response_format is not None and request.response_format.get("type") != "text":
        raise wrong("response_format", "the agent's code says what form its answers have: leave it out")
    for at, message in enumerate(request.messages):
        if message.get("role") not in ROLES:
            raise wrong(f"messages[{at}].role", f"there is no role {str(message.get('role'))[:40]!r}")
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise wrong(f"messages[{at}].tool_calls", "give a list of calls, each an object with an id")
    return request


def functions_of(request: ChatRequest) -> list[AnyTool]:
    """The functions that the client runs. Raises `Problem`, or `UsageError` for a schema that is none."""
    functions: list[AnyTool] = []
    for at, given in enumerate(request.tools or ()):
        function: Any = given.get("function")
        if given.get("type") != "function" or not isinstance(function, dict) or not function.get("name"):
            raise wrong(f"tools[{at}]", "only tools of the type function are taken: the agent has its own")
        name = str(function["name"])
        if name in (QUESTION_TOOL, APPROVAL_TOOL):
            raise wrong(f"tools[{at}].function.name", f"{name!r} is how the agent asks people: give yours another name")
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        functions.append(external_tool(name, str(function.get("description") or ""), parameters))
    return functions


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A history as a place in a conversation: what names its beginning, what was said up to the agent's last answer and
    what is new behind it."""

    family: str
    """The digest of all before the agent's first answer: whatever goes on from there has it too."""
    digest: str
    """The digest of the whole: it names this turn."""
    before: str
    """The digest of what the agent's last answer answers; empty if there was none."""
    said: Json | None
    """The agent's last answer."""
    history: tuple[Json, ...]
    new: tuple[tuple[int, Json], ...]
    """What stands behind it, each with its place."""


def turn_of(request: ChatRequest, caller: str) -> Turn:
    """Where a request stands. Raises `Problem` if nobody has said anything new."""
    messages = request.messages
    answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    digests = _digests(request, caller)
    first, last = (answers[0], answers[-1]) if answers else (len(messages), -1)
    new = tuple((at, messages[at]) for at in range(last + 1, len(messages)))
    if not any(message["role"] in ("user", "tool") for _, message in new):
        raise wrong("messages", "there is nothing new: end with a message of the user's or the result of a call")
    return Turn(
        family=digests[first],
        digest=digests[-1],
        before=digests[last] if last >= 0 else "",
        said=messages[last] if last >= 0 else None,
        history=tuple(messages[: last + 1]),
        new=new,
    )


def _digests(request: ChatRequest, caller: str) -> list[str]:
    """The digests of the first none, one, two … messages. What differs only in form has the same."""
    made = hashlib.sha256(msgspec.json.encode([caller, request.model]))
    digests = [made.hexdigest()[:DIGEST_CHARS]]
    for message in request.messages:
        made.update(msgspec.json.encode(plain(message), order="deterministic"))
        digests.append(made.hexdigest()[:DIGEST_CHARS])
    return digests


def plain(message: Json) -> list[Any]:
    """What a message says, without the many ways to write it."""
    content = message.get("content")
    calls = [str(call.get("id")) for call in message.get("tool_calls") or ()]
    role = "system" if message["role"] == "developer" else message["role"]
    return [role, text_of(content), _others(content), calls, str(message.get("tool_call_id") or "")]


def text_of(content: Any) -> str:
    """The text of a content."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return "".join(str(part.get("text")) for part in content if isinstance(part, dict) and part.get("type") == "text")


def _others(content: Any) -> list[Any]:
    parts = content if isinstance(content, list) else []
    return [part for part in parts if not (isinstance(part, dict) and part.get("type") == "text")]
