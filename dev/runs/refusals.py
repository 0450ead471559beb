"""What callers are refused with: each error class raised by a real mistake or a real fault."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import windlass
from windlass.runtime.hooks.hook import Hook
from windlass.store import open_store
from windlass.store.base import Key

from .stage import QUICK, Stage, scripted


async def mistakes(stage: Stage) -> None:
    """Calls that cannot be meant, sessions that are not there, stores that are damaged."""
    agent = windlass.Agent("worker", model=scripted("fine"), settings=QUICK)
    with stage.refused("make an agent with an unknown model"):
        windlass.Agent("worker", model="nowhere/at-all").run_sync("hello")
    with stage.refused("make an agent with a tool that is not there"):
        tools: list[Any] = ["no_such_tool"]
        _ = windlass.Agent("worker", model=scripted("x"), tools=tools).toolset
    with stage.refused("make an agent with an output schema that is none"):
        await windlass.Agent("worker", model=scripted("x"), output={"type": "nothing"}).run("hello")
    with stage.refused("place a guard where there is nothing to stop"):
        Hook(point="run_end", run=lambda moment: None, kind="guard")
    async with stage.open(agent) as rt:
        with stage.refused("get a session that is not there"):
            await rt.get("nobody")
        session = await rt.session(agent, "refusals")
        await stage.said(session, "hello")
        with stage.refused("approve a request that nobody made"):
            await session.approve("p999", digest="none")
        with stage.refused("settle a call that is not there"):
            await session.settle("c999", "happened")
    place = stage.folder / "work.db"
    with closing(sqlite3.connect(place, isolation_level=None)) as database:
        database.execute("UPDATE appends SET data = x'7b7d' WHERE rowid IN (SELECT min(rowid) FROM appends)")
    with stage.refused("read a log whose bytes were changed"):
        store = await open_store(str(place))
        try:
            async for _line in store.log.read(Key("default", "refusals")):
                continue
        finally:
            await store.close()
    (stage.folder / "no.db").write_bytes(b"this is no database" * 100)
    with stage.refused("open a file that is no store"):
        await open_store(str(stage.folder / "no.db"))


SCENARIOS = {"refusals": mistakes}
