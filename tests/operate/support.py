"""A store in memory with a session that asked, paid and answered, and one that waits for a word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import windlass
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.store import MemoryStore
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call

DONE = Key("default", "done")
ASKED = Key("default", "asked")
paid: list[int] = []
"""What the tool has really paid."""


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    paid.append(cents)
    return f"paid {cents}"


def payer(*turns: Any, name: str = "payer", policy: windlass.Policy | None = None) -> Agent:
    """An agent with one tool that does as it is told."""
    model = ScriptedModel(by_history(list(turns or ([call("pay", cents=7)], "Done: 7."))))
    return Agent(name, model=model, tools=[pay], policy=policy or windlass.Policy(), instructions="Pay what is due.")


ASKING = windlass.Policy(rules=(windlass.ask("pay"),))


@asynccontextmanager
async def sessions() -> AsyncIterator[MemoryStore]:
    """The store: `done` is complete, `asked` waits for a permission; nobody drives them."""
    paid.clear()
    store = MemoryStore()
    free, careful = payer(), payer(name="careful", policy=ASKING)
    async with Runtime(store, agents=[free, careful]) as runtime:
        for agent, key in ((free, DONE), (careful, ASKED)):
            session = await runtime.session(agent, key.session)
            await session.prompt("Pay it.")
            await session.result()
    yield store
    await store.close()
