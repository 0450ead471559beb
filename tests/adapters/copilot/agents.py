"""The agent behind the server in these tests: its model does what the prompt says, and keeps no place of its own, so
that it goes on the same way in another process."""

from __future__ import annotations

import json
from typing import Any

import msgspec

import windlass
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem, UserItem
from windlass.models.base import Request
from windlass.testing.scripted import SCRIPTED_INFO, ScriptedModel, call, fail, hang, think


def said(item: Any) -> str:
    return plain_text(tuple(item.content))


def answer(request: Request) -> Any:
    """`say WORDS`, `think`, `call TOOL JSON`, `hang`, `fail`, `instructions`, `tools`; whatever else is read out."""
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
        case "instructions":
            return request.instructions
        case "tools":
            return ", ".join(sorted(tool.name for tool in request.tools))
        case "fail":
            return [fail("invalid_request", "the provider says no")]
        case "say":
            return [f"{word} " for word in rest.split(" ")]
        case _:
            return f"heard {said(last)}"


@windlass.tool(contract="pure", kind="read")
def weigh(thing: str) -> str:
    """Weighs a thing."""
    return f"{thing} weighs {len(thing)}"


other = ScriptedModel(
    lambda request: "in short: much was said", info=msgspec.structs.replace(SCRIPTED_INFO, name="other", model="other")
)
clerk = windlass.Agent(
    "clerk",
    model=ScriptedModel(answer),
    agents=[
        windlass.Agent(
            "critic",
            model=ScriptedModel(answer),
            tools=[weigh],
            instructions="You are a critic.",
            description="Finds what is wrong.",
            display_name="The critic",
        )
    ],
    summary_model=other,
    tools=[weigh, "todo", "task", "ask_user", "plan"],
    instructions="You are a clerk.",
)
