"""One history, two ways on: the session is forked after its first answer, and each fork is asked something else.

A fork shares the history of its origin and costs nothing to make. What happens in one is not seen by the others.
"""

from __future__ import annotations

import asyncio

import windlass
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import UserItem
from windlass.models.base import Request
from windlass.testing import ScriptedModel


def answer(request: Request) -> str:
    """What a model would say, by what it was asked last."""
    asked = [plain_text(item.content) for item in request.items if isinstance(item, UserItem)]
    said = {"Plan a trip.": "Three days in Bern.", "Cheaper!": "Two days in Bern.", "Warmer!": "Three days in Lugano."}
    return f"{said[asked[-1]]} (asked so far: {len(asked)})"


agent = windlass.Agent("planner", model=ScriptedModel(answer))


async def say(session: windlass.Session, text: str) -> windlass.Result:
    async for _ in session.prompt(text):
        pass
    return await session.result()


async def main() -> None:
    async with windlass.open("trips.db", agents=[agent]) as runtime:
        trip = await runtime.session(agent, "trip")
        print("trip:", (await say(trip, "Plan a trip.")).text)
        before = [record.seq async for record in trip.records()]
        cheaper = await trip.fork("trip-cheaper")
        warmer = await trip.fork("trip-warmer")
        results = {name: await say(fork, name) for name, fork in (("Cheaper!", cheaper), ("Warmer!", warmer))}
        for name, result in results.items():
            print(f"{result.session}: {name} {result.text}")
        print("the origin has not changed:", [record.seq async for record in trip.records()] == before)


if __name__ == "__main__":
    asyncio.run(main())
