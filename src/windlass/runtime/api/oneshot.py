"""The simplest way to run an agent: one prompt, one result, nothing kept unless a store is named."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from windlass.events.base import Event
from windlass.events.errors import UsageError
from windlass.events.hooks import HookRuled
from windlass.events.live import Live
from windlass.events.questions import QuestionRequested
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolDenied, ToolRequested
from windlass.events.turns import ModelFailed, ModelReplied, OutputFailed
from windlass.events.values.blocks import Refusal
from windlass.runtime.streams.record import Record
from windlass.tools.planes.task_stops import ended

from .agent import Agent, Overrides, Place, Prompt
from .open import open_runtime
from .open_things import seq_in
from .result import Aborted, NeedsAnswer, ProviderError, Result, RunError, ToolNotAllowed, error_of
from .session import Session

SLEEPING_LOOK_MS = 50


async def run(
    agent: Agent, prompt: Prompt, *, store: Place | None = None, session: str | None = None, overrides: Overrides
) -> Result:
    """Runs one prompt to its end; waits through sleeps; raises if the run did not complete."""
    agent, asked = fitted(agent, session, overrides)
    async with open_runtime(store, agents=[agent]) as runtime:
        handle = await runtime.session(agent, session)
        command_id = await handle.prompt(prompt, **asked)
        alone = store is None and agent.approver is None and bool(agent.tools)
        result = await (_unasked(handle, command_id) if alone else handle.result(command_id))
        while result.status == "sleeping":
            await runtime.ports.sleep_ms(SLEEPING_LOOK_MS)
            await handle.wait_idle()
            if (result := await handle.result()).status == "sleeping" and not (await handle.state()).timers.open:
                raise Aborted(f"run {result.run_id} of session {result.session!r} was stopped while it slept", result)
        kept = store is not None and result.status == "asked"
        error = None if kept else error_of(result, output=asked.get("output", agent.output is not None))
        if error is not None:
            raise await explained(handle, error)
    return result


async def _unasked(session: Session, command_id: str) -> Result:
    """The result, unless a running tool asks a person: it would wait for ever, since nobody can reach this session."""
    waiting = asyncio.ensure_future(session.result(command_id))
    asking = asyncio.ensure_future(_asked_inside(session))
    try:
        await asyncio.wait({waiting, asking}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done() or not asking.result():
            return await waiting
        state = await session.state()
        return Result(
            session=session.session_id,
            run_id=state.run.run_id,
            status="asked",
            stop="awaiting_people",
            waiting_for=asking.result(),
        )
    finally:
        for task in (waiting, asking):
            task.cancel()
        await ended([waiting, asking])


async def _asked_inside(session: Session) -> tuple[str, ...]:
    """What running tools ask a person, as soon as there is any; nothing if the runtime is closed before."""
    slots = session.runtime.slots
    listener = slots.subscribe(session.key, live=False)
    try:
        for ask in (await session.state()).asks.open.values():
            if ask.inside:
                return (ask.ask_id,)
        async for told in listener:
            if isinstance(told, Record) and isinstance(told.event, QuestionRequested) and told.event.inside:
                return (told.event.question_id,)
    finally:
        slots.leave(session.key, listener)
    return ()


async def explained(session: Session, error: RunError) -> RunError:
    """The exception of a run, made more exact by what only its log tells: that a denied call ended it, that it waits
    for no person but for credentials that the provider takes, that whoever was to ask people broke, what did not fit
    the output, or in which words the model refused."""
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
        case "awaiting_people":
            events = await _events_of_run(session, result.run_id)
            broken = [e.message for e in events if isinstance(e, NoticeGiven) and e.code == "approver_failed"]
            waits = ", ".join(result.waiting_for)
            return NeedsAnswer(f"{named}: {broken[-1]} (waiting for {waits})", result) if broken else error
        case "output_invalid":
            missed = [e.errors for e in await _events_of_run(session, result.run_id) if isinstance(e, OutputFailed)]
            return RunError(f"{error}: {'; '.join(missed[-1])}", result) if missed else error
        case "refused":
            words = _refusal(await _events_of_run(session, result.run_id))
            return ProviderError(f"{error}: {words}", result) if words else error
    return error


async def _events_of_run(session: Session, run_id: str) -> list[Event]:
    """What the log has from the start of a run on. A run is called by the record that started it."""
    started = seq_in(run_id)
    return [record.event async for record in session.records(after=started - 1 if started else 0)]


def _refusal(events: list[Event]) -> str:
    """In which words the model refused; "" if it found none."""
    bodies = [event.body for event in events if isinstance(event, ModelReplied) and event.body is not None]
    return " ".join(block.text for block in bodies[-1].blocks if isinstance(block, Refusal)) if bodies else ""


def _denial(events: list[Event]) -> str:
    """Which call was denied in such a way that the run ended; "" if none was."""
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
        from windlass.models.transport.http import close_transport

        await close_transport()


def fitted(agent: Agent, session: str | None, overrides: Overrides) -> tuple[Agent, dict[str, Any]]:
    """The agent for one run, and what its prompt must ask for: if a session may exist already, its log says which
    model it has, and only a prompt changes that for a run."""
    unknown = sorted(set(overrides) - set(Overrides.__annotations__))
    if unknown:
        known = ", ".join(Overrides.__annotations__)
        raise UsageError(f"a run has no {unknown[0]!r} of its own: there are store, session, {known}")
    asked: dict[str, Any] = {
        name: overrides[name] for name in ("budget", "tools", "hooks", "attachments") if name in overrides
    }
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
