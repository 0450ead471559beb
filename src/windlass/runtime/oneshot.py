"""The simplest way to run an agent: one prompt, one result, nothing kept unless a store is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from windlass.events.base import Event
from windlass.events.live import Live
from windlass.store.base import Store

from .agent import Agent
from .result import Result, error_of
from .runtime import Runtime


def open_runtime(store: str | Store | None = None, *, agents: Sequence[Agent] = (), **more: Any) -> Runtime:
    """A runtime over a store: a SQLite file, a directory of JSON lines, memory where none is given, or a `Store` of
    one's own. Use it as `async with`."""
    return Runtime(store if store is not None else ":memory:", agents=agents, **more)


async def run(agent: Agent, prompt: str, *, store: str | None = None, session: str | None = None) -> Result:
    """Runs one prompt to its end; waits through sleeps; raises where the run did not complete."""
    async with open_runtime(store, agents=[agent]) as runtime:
        handle = await runtime.session(agent, session)
        await handle.prompt(prompt)
        result = await handle.result()
        while result.status == "sleeping":
            await runtime.ports.sleep_ms(50)
            await handle.wait_idle()
            result = await handle.result()
    kept = store is not None and result.status == "asked"
    error = error_of(result)
    if error is not None and not kept:
        raise error
    return result


async def stream(
    agent: Agent, prompt: str, *, store: str | None = None, session: str | None = None
) -> AsyncIterator[Event | Live]:
    """One prompt's events until its terminal."""
    async with open_runtime(store, agents=[agent]) as runtime:
        handle = await runtime.session(agent, session)
        async for event in handle.prompt(prompt):
            yield event


def run_sync(agent: Agent, prompt: str, *, store: str | None = None, session: str | None = None) -> Result:
    """`run` without an event loop of one's own; inside a running one the work goes to a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(agent, prompt, store=store, session=session))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(run(agent, prompt, store=store, session=session))).result()
