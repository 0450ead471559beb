"""The agent behind the adapters in these tests: its model does what the newest words say and keeps no place of its own,
so that it goes on the same way in another process."""

from __future__ import annotations

from typing import Any

import windlass
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel, call, fail, think

QUESTION = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red"}, {"label": "blue"}]}


def answer(request: Request) -> Any:
    """`Pay`: looks something up with a tool of the client's, pays, and says so. `Ask`, `Note`, `Fail`, `Show`; whatever
    else is said is heard."""
    last = request.items[-1]
    said = plain_text(tuple(getattr(last, "content", ())))
    if isinstance(last, ResultItem):
        known = {"look_up": [call("pay", amount=3)], "pay": f"It is so: {said}."}
        return known.get(last.tool, f"{last.tool} gave {said}")
    offered = {tool.name for tool in request.tools}
    match said.split()[0].rstrip("."):
        case "Pay" if "look_up" in offered:
            return [think("Whose is it?"), "One moment.", call("look_up", name="x")]
        case "Pay":
            return [think("Let me see."), "One moment.", call("pay", amount=3)]
        case "Ask":
            return [call("ask_user", questions=[QUESTION])]
        case "Note":
            return [call("task", goal="to pay")]
        case "Fail":
            return [fail("invalid_request", "the provider says no")]
        case _:
            return f"heard {said}"


@windlass.tool
def pay(amount: int) -> str:
    """Pays an amount."""
    return f"paid {amount}"


teller = windlass.Agent(
    "teller",
    model=ScriptedModel(answer),
    tools=[pay, "task", "ask_user"],
    instructions="You are a teller.",
    policy=windlass.Policy(rules=(windlass.ask("pay"),), default="allow"),
)
