"""Sessions with a past that left their history, for the tests of the archive."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

import windlass
from tests.runtime.support import QUICK
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import HistoryItem
from windlass.models.base import Request
from windlass.runtime.api.session import Session
from windlass.testing.scripted import SCRIPTED_USAGE, ScriptedModel

FACTS = ("the harbour opens at dawn", "the lighthouse keeper is called Ines", "the ferry costs nine crowns")
LATER = ("talk about the weather", "talk about bread")


def answering(request: Request) -> str:
    if request.lane == "compact":
        return "an epitome"
    return "noted"


def agent_of(answer=answering, **more) -> windlass.Agent:
    more.setdefault("settings", msgspec.structs.replace(QUICK, keep_exchanges=2))
    usage = more.pop("usage", SCRIPTED_USAGE)
    return windlass.Agent("talker", model=ScriptedModel(answer, usage=usage), **more)


async def say(session: Session, *prompts: str) -> None:
    for prompt in prompts:
        await session.prompt(prompt)
        await session.result()


async def forget(session: Session) -> None:
    """Has everything but the newest exchange summarised."""
    await session.compact()
    await session.wait_idle()


@contextlib.asynccontextmanager
async def talked(
    agent: windlass.Agent, store: str = ":memory:", prompts: Sequence[str] = (*FACTS, *LATER)
) -> AsyncIterator[Session]:
    """A session that has talked about the facts and forgotten them."""
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, *prompts)
        await forget(session)
        yield session


def requests(agent: windlass.Agent) -> list[Request]:
    """What its model was asked so far."""
    assert isinstance(agent.model, ScriptedModel)
    return list(agent.model.requests)


def texts(items: Sequence[HistoryItem]) -> list[str]:
    """What a request's items say."""
    return [plain_text(tuple(block for block in item.content)) for item in items]  # type: ignore[misc]
