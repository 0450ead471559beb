"""Text as it is written; then the reader goes away, and goes on later where it was.

Leaving the loop detaches the reader and stops nothing. The cursor of the last record that was shown is all that it has
to keep.
"""

from __future__ import annotations

import asyncio

import windlass
from windlass.events.base import name_of
from windlass.runtime.streams.record import Record
from windlass.testing import ScriptedModel, by_history, call
from windlass.testing.scripted import AnyTurn


@windlass.tool(contract="pure")
def look(city: str) -> str:
    "Look at the weather."
    return "rain"


script: list[AnyTurn] = [["Let me ", "see. ", call("look", city="Bern")], ["It ", "rains."]]
guide = windlass.Agent("guide", model=ScriptedModel(by_history(script)), tools=[look])


async def show_until_the_tool(session: windlass.Session, attached: asyncio.Event) -> str:
    """Shows what happens up to the first result, and gives the place where it stopped."""
    async for told in session.tail():
        attached.set()  # what is in the log comes first, so it is here now
        if isinstance(told, windlass.TextDelta):
            print(f"live: {told.text!r}")
        elif isinstance(told, Record) and isinstance(told.event, windlass.ToolFinished):
            return told.cursor
    raise AssertionError("the log goes on")


async def show_the_rest(session: windlass.Session, cursor: str) -> None:
    """Shows what came behind that place."""
    async for told in session.tail(after=cursor):
        if isinstance(told, Record):
            print(f"then: {name_of(told.event)}")
            if isinstance(told.event, windlass.RunCompleted):
                return


async def main() -> None:
    async with windlass.open("visit.db", agents=[guide]) as runtime:
        session = await runtime.session(guide, "visit")
        attached = asyncio.Event()
        reading = asyncio.create_task(show_until_the_tool(session, attached))
        await attached.wait()
        await session.prompt("What is it like outside?")
        cursor = await reading
        await session.result()
    async with windlass.open("visit.db") as runtime:  # another process, another day
        await show_the_rest(await runtime.get("visit"), cursor)


if __name__ == "__main__":
    asyncio.run(main())
