"""The simplest way to run an agent: one prompt, one result, nothing kept unless a store is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from windlass.events.base import Event
from windlass.events.live import Live

from .agent import Agent
from .opening import open_runtime
from .result import Result, error_of


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
