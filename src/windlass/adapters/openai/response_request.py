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
    metadata: dict[str, str] | None = None
    temperature: float | None = None
    """Passed over, as all that follow: the agent has its own settings."""
    top_p: float | None = None
    max_output_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: Any = None
    truncation: str | None = None
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


def turn_of(request: ResponseRequest) -> Turn:
    """The answers and the words of a request. Raises `Problem`."""
    if isinstance(request.input, str):
        return Turn(prompt=_blocks([{"role": "user", "content": request.input}]))
    answers: list[Answered] = []
    messages: list[dict[str, Any]] = []
    for at, item in enumerate(request.input):
        if item.get("type") in ANSWERS:
            answers.append(_answered(item, at))
        elif item.get("role") == "user":
            messages.append(item)
        else:
            what = str(item.get("type") or item.get("role"))[:40]
            raise wrong(f"input[{at}]", f"{what!r} is not taken: the session has its history, continue it instead")
    return Turn(answers=tuple(answers), prompt=_blocks(messages) if messages else ())


def _answered(item: dict[str, Any], at: int) -> Answered:
    if item["type"] == "function_call_output":
        output = item.get("output")
        text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
        return Answered(name=str(item.get("call_id")), output=text)
    approve = item.get("approve")
    if not isinstance(approve, bool):
        raise wrong(f"input[{at}].approve", "say true or false")
    return Answered(name=str(item.get("approval_request_id")), output=str(item.get("reason") or ""), approve=approve)


def _blocks(messages: list[dict[str, Any]]) -> tuple[InputBlock, ...]:
    items = import_history(messages, "openai_responses").items
    return tuple(block for item in items if isinstance(item, UserItem) for block in item.content)


def tools_of(request: ResponseRequest) -> list[AnyTool]:
    """The functions that the client runs. Raises `Problem`, or `UsageError` for a schema that is none."""
    found: list[AnyTool] = []
    for at, given in enumerate(request.tools):
        name = str(given.get("name") or "")
        if given.get("type") != "function" or not name:
            raise wrong(f"tools[{at}]", "only tools of the type function are taken: the agent has its own")
        if name == QUESTION_TOOL:
            raise wrong(f"tools[{at}].name", f"{QUESTION_TOOL!r} is how the agent asks people: give yours another name")
        parameters = given.get("parameters") or {"type": "object", "properties": {}}
        found.append(external_tool(name, str(given.get("description") or ""), parameters))
    return found


def wrong(path: str, words: str) -> Problem:
    """What is said of a part of a request that means nothing here."""
    return Problem(400, "usage", f"{path}: {words}", path=f"$.{path}")
