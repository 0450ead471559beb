"""A request for a response, read strictly: what it says, what it answers, and the tools that its client runs."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import InputBlock
from windlass.events.values.items import UserItem
from windlass.models.convert import import_history
from windlass.server.problems import Problem
from windlass.tools.tool import AnyTool, external_tool

ANSWERS = ("function_call_output", "mcp_approval_response")
OUTPUTS = ("reasoning", "function_call", "mcp_call", "mcp_approval_request")
QUESTION_TOOL = "ask_user"
"""The function that clients are called with when the agent asks a person something."""


class ResponseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is taken of a request for a response."""

    model: str
    """The name of an agent."""
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    store: bool | None = None
    tools: list[dict[str, Any]] = []
    text: dict[str, Any] | None = None
    """Of this the format is looked at: the agent's code says what form its answers have."""
    background: bool | None = None
    """Refused if it is set, as are the two that follow: a response is asked for and continued by its id."""
    conversation: Any = None
    prompt: Any = None
    metadata: dict[str, str] | None = None
    """Passed over, as all that follow: the agent has its own settings."""
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: Any = None
    truncation: str | None = None
    reasoning: Any = None
    include: list[str] | None = None
    stream_options: Any = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Any = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    context_management: Any = None
    moderation: Any = None
    user: str | None = None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says to something that was open."""

    name: str
    output: str = ""
    approve: bool | None = None
    """Its word on a permission; None for the output of a call."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says to a session."""

    answers: tuple[Answered, ...] = ()
    prompt: tuple[InputBlock, ...] = ()
    instructions: str | None = None
    """Those of the request, and behind them what it says as the developer or the system."""


def check_taken(request: ResponseRequest) -> None:
    """Raises `Problem` for what a request wants otherwise than an agent's session can give it."""
    if request.store is False:
        raise wrong("store", "sessions are always kept here: leave it out")
    form = (request.text or {}).get("format") or {"type": "text"}
    if not isinstance(form, dict) or form.get("type") != "text":
        raise wrong("text.format", "the agent's code says what form its answers have: leave it out")
    if request.background:
        raise wrong("background", "leave it out: a run goes on also if its client leaves")
    if request.conversation is not None:
        raise wrong("conversation", "continue a response by previous_response_id instead")
    if request.prompt is not None:
        raise wrong("prompt", "no prompts are kept here: leave it out")


def turn_of(request: ResponseRequest) -> Turn:
    """The answers and the words of a request. Raises `Problem`."""
    if isinstance(request.input, str):
        said = [{"role": "user", "content": request.input}]
        return Turn(prompt=_read(said)[0], instructions=request.instructions)
    known = max((at for at, item in enumerate(request.input) if _is_known(item)), default=-1)
    answers: list[Answered] = []
    messages: list[dict[str, Any]] = []
    for at, item in enumerate(request.input):
        if at <= known:
            continue
        if item.get("type") in ANSWERS:
            answers.append(_answered(item, at))
        elif item.get("role") in ("user", "developer", "system"):
            messages.append(item)
        else:
            what = str(item.get("type") or item.get("role"))[:40]
            raise wrong(f"input[{at}]", f"{what!r} is not taken here")
    if known >= 0 and not answers:
        raise wrong(f"input[{known}]", "the session has its history: continue it by previous_response_id instead")
    prompt, told = _read(messages)
    instructions = "\n\n".join(filter(None, (request.instructions, *told)))
    return Turn(answers=tuple(answers), prompt=prompt, instructions=instructions or None)


def _is_known(item: dict[str, Any]) -> bool:
    """Whether an item repeats what a response has said. With answers behind it, it is passed over: those name the
    session, which has it."""
    return item.get("type") in OUTPUTS or item.get("role") == "assistant"


def _answered(item: dict[str, Any], at: int) -> Answered:
    if item["type"] == "function_call_output":
        output = item.get("output")
        text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
        return Answered(name=str(item.get("call_id")), output=text)
    approve = item.get("approve")
    if not isinstance(approve, bool):
        raise wrong(f"input[{at}].approve", "say true or false")
    return Answered(name=str(item.get("approval_request_id")), output=str(item.get("reason") or ""), approve=approve)


def _read(messages: list[dict[str, Any]]) -> tuple[tuple[InputBlock, ...], tuple[str, ...]]:
    """What the user says in some messages, and what others say to the model."""
    read = import_history(messages, "openai_responses")
    said = tuple(block for item in read.items if isinstance(item, UserItem) for block in item.content)
    return said, tuple(read.instructions)


def tools_of(request: ResponseRequest) -> list[AnyTool]:
    """The functions that the client runs. Raises `Problem`, or `UsageError` for a schema that is none."""
    functions: list[AnyTool] = []
    for at, given in enumerate(request.tools):
        name = str(given.get("name") or "")
        if given.get("type") != "function" or not name:
            raise wrong(f"tools[{at}]", "only tools of the type function are taken: the agent has its own")
        if name == QUESTION_TOOL:
            raise wrong(f"tools[{at}].name", f"{QUESTION_TOOL!r} is how the agent asks people: give yours another name")
        parameters = given.get("parameters") or {"type": "object", "properties": {}}
        functions.append(external_tool(name, str(given.get("description") or ""), parameters))
    return functions


def wrong(path: str, words: str) -> Problem:
    """What is said of a part of a request that means nothing here."""
    return Problem(400, "usage", f"{path}: {words}", path=f"$.{path}")
