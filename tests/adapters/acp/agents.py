"""The agent behind the editor in these tests: its model does what the prompt says, and keeps no place of its own, so
that it goes on the same way in another process."""

from __future__ import annotations

import json
from typing import Any

import windlass
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem, UserItem
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel, call, fail, hang, think


def said(item: Any) -> str:
    return plain_text(tuple(item.content))


def answer(request: Request) -> Any:
    """`say WORDS`, `think`, `call TOOL JSON`, `hang`, `fail`; whatever else is read out, with what came with it."""
    last = request.items[-1]
    if isinstance(last, ResultItem):
        return f"{last.tool} gave {said(last)}"
    assert isinstance(last, UserItem)
    verb, _, rest = said(last).partition(" ")
    match verb:
        case "think":
            return [think("let me see"), "thought"]
        case "call":
            tool, _, args = rest.partition(" ")
            return ["one moment", call(tool, **json.loads(args.splitlines()[0] if args else "{}"))]
        case "hang":
            return ["begun", hang()]
        case "fail":
            return [fail("invalid_request", "the provider says no")]
        case "say":
            return [f"{word} " for word in rest.split(" ")]
        case _:
            kinds = [type(block).__name__ for block in last.content]
            return f"heard {said(last)} in {', '.join(kinds)}"


@windlass.tool(contract="pure", kind="read")
def weigh(thing: str) -> str:
    """Weighs a thing."""
    return f"{thing} weighs {len(thing)}"


helper = windlass.Agent(
    "helper",
    model=ScriptedModel(answer),
    tools=[weigh],
    policy=windlass.Policy([windlass.ask("weigh")]),
    description="Weighs things.",
)
clerk = windlass.Agent(
    "clerk",
    model=ScriptedModel(answer),
    agents=[helper],
    tools=[weigh, "read", "write", "edit", "todo", "ask_user", "plan"],
    policy=windlass.Policy([windlass.ask("weigh"), windlass.ask("write"), windlass.ask("edit")]),
    instructions="You are a clerk.",
)
