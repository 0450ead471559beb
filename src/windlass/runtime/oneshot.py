"""The simplest way to run an agent: one prompt, one result, nothing kept unless a store is named."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from windlass.events.base import Event
from windlass.events.calls import ToolDenied, ToolRequested
from windlass.events.errors import Refused, UsageError
from windlass.events.hooks import HookRuled
from windlass.events.live import Live
from windlass.events.runs import CommandCompleted, QueueChanged, RunStarted
from windlass.events.turns import ModelFailed

from .agent import Agent, Overrides, Place, Prompt
from .opening import open_runtime
from .result import ProviderError, Result, RunError, ToolNotAllowed, error_of
from .session import Session

SLEEPING_LOOK_MS = 50


async def run(
    agent: Agent, prompt: Prompt, *, store: Place | None = None, session: str | None = None, overrides: Overrides
) -> Result:
    """Runs one prompt to its end; waits through sleeps; raises where the run did not complete."""
    agent, asked = fitted(agent, session, overrides)
    async with open_runtime(store, agents=[agent]) as runtime:
        handle = await runtime.session(agent, session)
        command_id = await handle.prompt(prompt, **asked)
        denied = await _denied_prompt(handle, command_id) if agent.hooks or asked.get("hooks") else None
        if denied is not None:
            raise denied
        result = await handle.result()
        while result.status == "sleeping":
            await runtime.ports.sleep_ms(SLEEPING_LOOK_MS)
            await handle.wait_idle()
            result = await handle.result()
        kept = store is not None and result.status == "asked"
        error = None if kept else error_of(result)
        if error is not None:
            raise await explained(handle, error)
    return result


async def _denied_prompt(session: Session, command_id: str) -> Refused | None:
    """Why a prompt got no run: a hook denied it. How the run before it ended is no answer to it."""
    why = ""
    async for record in session.records(after=await session.runtime.taken_after(session.key, command_id)):
        if isinstance(record.event, HookRuled) and record.event.ruling.denies:
            why = record.event.ruling.message or record.event.ruling.hook_id
        if isinstance(record.event, RunStarted | QueueChanged) and not why:
            return None
        if isinstance(record.event, CommandCompleted) and record.event.command_id == command_id:
            return Refused("hook_denied", f"the prompt was denied by a hook: {why}")
    return None


async def explained(session: Session, error: RunError) -> RunError:
    """The exception of a run, made more exact by what only its log tells: that a denied call ended it, or that it waits
    for no person but for credentials that the provider takes."""
    result = error.result
    named = f"run {result.run_id} of session {result.session!r} ended {result.status}"
    match result.stop:
        case "user_abort" | "hook_denied":
            denied = _denial(await _events_of_run(session, result.run_id))
            if denied:
                return ToolNotAllowed(f"{named}: {denied}", result)
            return error if result.stop == "user_abort" else RunError(str(error), result)
        case "awaiting_credentials":
            failed = [e for e in await _events_of_run(session, result.run_id) if isinstance(e, ModelFailed)]
            why = failed[-1].failure.message if failed else "the provider takes no request without credentials"
            return ProviderError(f"{named}: {why}", result)
    return error


async def _events_of_run(session: Session, run_id: str) -> list[Event]:
    """What the log has from the start of a run on."""
    found: list[Event] = []
    async for record in session.records():
        if isinstance(record.event, RunStarted) and record.event.run_id == run_id:
            found = []
        found.append(record.event)
    return found


def _denial(events: list[Event]) -> str:
    """Which call was denied in such a way that the run ended; "" where none was."""
    tools = {event.call_id: event.tool for event in events if isinstance(event, ToolRequested)}
    fatal = {event.ruling.call_id for event in events if isinstance(event, HookRuled) and event.ruling.fatal}
    for event in reversed(events):
        if isinstance(event, ToolDenied) and (event.stop or event.call_id in fatal) and event.reason != "repeated":
            return f"the call of {tools.get(event.call_id, event.call_id)!r} was not allowed: {event.detail}"
        if isinstance(event, HookRuled) and event.ruling.fatal and event.ruling.point == "after_tool":
            tool = tools.get(event.ruling.call_id or "", "a tool")
            return f"the result of {tool!r} was not allowed: {event.ruling.message or event.ruling.hook_id}"
    return ""


async def stream(
    agent: Agent, prompt: Prompt, *, store: Place | None = None, session: str | None = None, overrides: Overrides
) -> AsyncIterator[Event | Live]:
    """One prompt's events until its terminal."""
    agent, asked = fitted(agent, session, overrides)
    async with open_runtime(store, agents=[agent]) as runtime:
        handle = await runtime.session(agent, session)
        async for event in handle.prompt(prompt, **asked):
            yield event


def run_sync(
    agent: Agent, prompt: Prompt, *, store: Place | None = None, session: str | None = None, overrides: Overrides
) -> Result:
    """`run` without an event loop of one's own; inside a running one the work goes to a thread."""

    def alone() -> Result:
        return asyncio.run(_tidied(run(agent, prompt, store=store, session=session, overrides=overrides)))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return alone()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(alone).result()


async def _tidied(work: Coroutine[Any, Any, Result]) -> Result:
    """Closes the connections with the loop that they belong to: a model that was given lives on without them."""
    try:
        return await work
    finally:
        from windlass.models.http import close_transport

        await close_transport()


def fitted(agent: Agent, session: str | None, overrides: Overrides) -> tuple[Agent, dict[str, Any]]:
    """The agent for one run, and what its prompt must ask for: where a session may exist already, its log says which
    model it has, and only a prompt changes that for a run."""
    unknown = sorted(set(overrides) - set(Overrides.__annotations__))
    if unknown:
        known = ", ".join(Overrides.__annotations__)
        raise UsageError(f"a run has no {unknown[0]!r} of its own: there are store, session, {known}")
    asked: dict[str, Any] = {name: overrides[name] for name in ("budget", "tools", "hooks") if name in overrides}
    if "approver" in overrides:
        agent = dataclasses.replace(agent, approver=overrides["approver"])
    if "output" in overrides:
        agent = dataclasses.replace(agent, output=overrides["output"])
        asked["output"] = overrides["output"] is not None
    if "model" in overrides and session is None:
        agent = dataclasses.replace(agent, model=overrides["model"])
    elif "model" in overrides:
        asked["model"] = overrides["model"]
    return agent, asked
