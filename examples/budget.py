"""A run that would cost too much ends before it does: the model gets one last turn without tools, to sum up.

Budgets are reserved before a request and settled after it, so a limit holds also for the request that would exceed it.
"""

from __future__ import annotations

import windlass
from windlass.events.values.items import ResultItem
from windlass.models.base import Request
from windlass.testing import ScriptedModel, call
from windlass.testing.scripted import AnyTurn


@windlass.tool(contract="pure")
def dig(deeper: int) -> str:
    "Look deeper into it."
    return "there is more below"


def tireless(request: Request) -> AnyTurn:
    """A model that goes on as long as it may."""
    levels = sum(isinstance(item, ResultItem) for item in request.items)
    if request.settings.tool_choice == "none":
        return f"I looked {levels} levels deep, and there is more."
    return call("dig", deeper=levels + 1)


def run(budget: windlass.Budget) -> None:
    agent = windlass.Agent("digger", model=ScriptedModel(tireless), tools=[dig], budget=budget)
    result = agent.run_sync("Find out everything.")
    print(f"{result.stop}: {result.text}")


if __name__ == "__main__":
    run(windlass.Budget(turns=3))
    run(windlass.Budget(calls=5))
    run(windlass.Budget())  # 50 turns are the limit where nobody says otherwise
