"""The agent behind the callers in these tests. Its model says what the last prompt that begins with `do` has it say, a
JSON list of replies, and keeps no place of its own: it goes on the same way in another process."""

from __future__ import annotations

import json
from typing import Any

import windlass
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import AssistantItem, UserItem
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel, call, hang, think

DO = "do "
print("what an agent's file prints is no event")


def made(reply: Any) -> Any:
    """One reply: a text, {"call": TOOL, "args": {…}}, {"hang": TEXT} or {"think": TEXT, "say": TEXT}."""
    if isinstance(reply, str):
        return reply
    if "call" in reply:
        return call(reply["call"], **reply.get("args", {}))
    if "hang" in reply:
        return [reply["hang"], hang()]
    return [think(reply["think"]), reply["say"]]


def answer(request: Request) -> Any:
    replies: list[Any] = []
    said = 0
    for item in request.items:
        if isinstance(item, UserItem) and (text := plain_text(tuple(item.content))).startswith(DO):
            replies, said = json.loads(text.removeprefix(DO)), 0
        elif isinstance(item, AssistantItem):
            said += 1
    return made(replies[said]) if said < len(replies) else "heard"


@windlass.tool(contract="pure", kind="read")
def weigh(thing: str) -> str:
    """Weighs a thing."""
    return f"{thing} weighs 3 kg"


@windlass.tool(contract="at_most_once", kind="write")
def send(to: str) -> str:
    """Sends the letter."""
    return f"sent to {to}"


policy = windlass.Policy([windlass.ask("send")], default="allow")
clerk = windlass.Agent("clerk", ScriptedModel(answer), tools=[weigh, send, "ask_user", "todo"], policy=policy)
