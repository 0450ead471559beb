"""`windlass run`: one prompt to an agent, streamed as it works, kept in a store; or a session gone on with."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from contextlib import ExitStack, redirect_stdout
from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError

from . import options, stores
from .exits import ASKED, FAILED, INTERRUPTED, OK, SLEEPING

if TYPE_CHECKING:
    from windlass.events.blocks import InputBlock
    from windlass.kernel.state import State
    from windlass.runtime.agent import Agent
    from windlass.runtime.result import Result
    from windlass.runtime.runtime import Runtime
    from windlass.runtime.session import Session

    from .keyboard import Interviewer
    from .narrate import Narrator

CODES = {"completed": OK, "failed": FAILED, "asked": ASKED, "sleeping": SLEEPING}

CREDENTIALS = ("credentials",)
"""What a run waits for whose model wants a key."""
TITLE_MAX = 60

SETTLE_S = 0.05
"""What was told last is still on its way to the screen."""


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .prompts import prompt_of

    blocks = prompt_of(args.prompt, args.file)
    if not blocks and not args.session:
        raise UsageError("nothing to do: write a prompt, pipe one in, or name a --session to go on with")
    return asyncio.run(perform(args, blocks))


async def perform(args: argparse.Namespace, blocks: tuple[InputBlock, ...]) -> int:
    import windlass

    from .agents import agent_of
    from .keyboard import Interviewer, Keyboard, is_interactive
    from .narrate import Narrator
    from .recalling import recalled

    out = sys.stderr if args.json else sys.stdout
    narrator = Narrator(out, sys.stderr, quiet=args.quiet or args.json)
    begun = time.monotonic()
    with ExitStack() as stack:
        if args.json:
            # What an agent's own code prints is no part of the result.
            stack.enter_context(redirect_stdout(sys.stderr))
        agent = agent_of(args, await recalled(args))
        asked: Interviewer | None = None
        if is_interactive() and not args.json:
            asked = Interviewer(stack.enter_context(Keyboard()), before=narrator.rest)
        async with windlass.open(
            options.place_of(args), agents=[agent], approver=asked, tenant=args.tenant, take_up=False
        ) as runtime:
            if asked is not None:
                asked.session = args.session = args.session or runtime.ports.fresh_id()
            session = await runtime.session(
                agent, args.session, title=title_of(blocks), workspace=os.curdir, trusted=args.trust
            )
            await greet(runtime, session, agent, narrator, args, asked)
            with Stopping(session, narrator):
                await work(session, blocks, narrator, asked)
            result = await result_of(session)
    narrator.rest()
    return farewell(result, session.session_id, args, narrator, time.monotonic() - begun)


async def greet(
    runtime: Runtime, session: Session, agent: Agent, narrator: Narrator, args: argparse.Namespace, asked: Any
) -> None:
    """The setup in few lines, so that a person knows what is about to work for them; all of it with --verbose."""
    from .setup_lines import files_line, setup_lines
    from .text import visible

    state = await session.state()
    place = options.place_of(args)
    model, names = in_effect(state, runtime, agent)
    tools = ", ".join(map(visible, names)) or "none"
    narrator.note(f"session {visible(session.session_id)} in {visible(place)} · model {visible(model)} · tools {tools}")
    summary = await session.setup()
    for line in setup_lines(summary) if args.verbose else filter(None, [files_line(summary)]):
        narrator.note(line)
    if asked is not None:
        narrator.note(f"whatever needs your word is asked behind the mark {asked.mark}")


def in_effect(state: State, runtime: Runtime, agent: Agent) -> tuple[str, list[str]]:
    """The model and the tools that the session is about to have: the log's, unless the agent is another now."""
    setup = runtime.bind(agent).setup()
    before = state.terms.model if state.terms is not None else setup.model
    model = state.model if setup.model == before else setup.model
    changed = setup.agent.digest != state.agent.digest
    return model.name, [spec.name for spec in setup.tools] if changed else list(state.tools)


async def work(session: Session, blocks: tuple[InputBlock, ...], narrator: Narrator, asked: Interviewer | None) -> None:
    """Sends the prompt and tells what follows; without one, goes on with what the session is owed."""
    if blocks:
        async for event in session.prompt(blocks):
            narrator.tell(event)
        return
    await go_on(session, narrator, asked)


async def go_on(session: Session, narrator: Narrator, asked: Interviewer | None) -> None:
    """Has a session do what it is owed, commands that wait in its inbox first; asks what it waits for, where somebody
    is there; and goes on with a run that was interrupted."""
    before = await session.state()
    watching = asyncio.create_task(watch(session, narrator, before.seq))
    try:
        await session.runtime.drive(session.session_id)
        await session.wait_idle()
        state = await session.state()
        if state.asks and asked is not None:
            await answer_open(session, asked)
        elif state.resumable and not state.asks and not state.timers and happened_nothing(before, state):
            await session.wake()
        await session.wait_idle()
    finally:
        await asyncio.sleep(SETTLE_S)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def happened_nothing(before: State, after: State) -> bool:
    """Whether no run began in between."""
    return (before.run and before.run.run_id) == (after.run and after.run.run_id)


async def watch(session: Session, narrator: Narrator, after: int) -> None:
    async for event in session.events(after=after):
        narrator.tell(event)


async def answer_open(session: Session, asked: Interviewer) -> None:
    """Puts what is open before the person, one after the other."""
    from windlass.runtime.approvals import command_for

    from .keyboard import request_of

    open_seqs = {ask.seq for ask in (await session.state()).asks.values()}
    events = [record.event async for record in session.records() if record.seq in open_seqs]
    for event in events:
        request = request_of(session.session_id, event)
        if request is None:
            continue
        command = command_for(request, await asked(request), command_id=stores.fresh_command_id())
        if command is None:
            return
        await session.runtime.send(session.key, command)


async def result_of(session: Session) -> Result | None:
    """How it ended; None where it never ran."""
    try:
        return await session.result()
    except UsageError:
        return None


class Stopping:
    """Ctrl-C interrupts the run, not the program; a second one leaves."""

    def __init__(self, session: Session, narrator: Narrator) -> None:
        self._session = session
        self._narrator = narrator
        self._asked_once = False
        self._task = asyncio.current_task()
        self._sending: asyncio.Task[Any] | None = None

    def __enter__(self) -> Stopping:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def _stop(self) -> None:
        if self._asked_once:
            if self._task is not None:
                self._task.cancel()
            return
        self._asked_once = True
        self._narrator.after_key()
        self._narrator.note("(interrupting; Ctrl-C again leaves at once)", "yellow")
        self._sending = asyncio.ensure_future(self._interrupt())

    async def _interrupt(self) -> None:
        from windlass.events.errors import Refused

        try:
            await self._session.interrupt("Ctrl-C")
        except Refused:
            return


def farewell(result: Result | None, session: str, args: argparse.Namespace, narrator: Narrator, took_s: float) -> int:
    """What it cost and how to go on, on standard error; and the exit code."""
    from . import words
    from .commands import again, at, word
    from .text import tell_json

    if result is None:
        narrator.note("nothing was owed: the session has had no prompt yet")
        return OK
    if args.json:
        tell_json(result)
    used = f"{words.tokens(result.usage)} · {words.dollars(result.cost_nanos)}"
    narrator.note(f"{result.status} · {words.plural(result.turns, 'turn')} · {used} · {took_s:.1f} s")
    if result.waiting_for == CREDENTIALS:
        narrator.note(f"then go on with: {again('run', session, args)}", "yellow")
    elif result.status == "asked":
        narrator.note(f"it waits for you: windlass show {word(session)}{at(args)}", "yellow")
    elif result.status in ("sleeping", "interrupted"):
        narrator.note(f"go on with: {again('run', session, args)}", "yellow")
    return CODES.get(result.status, INTERRUPTED)


def title_of(blocks: tuple[InputBlock, ...]) -> str:
    from windlass.events.blocks import Text

    said = next((block.text for block in blocks if isinstance(block, Text)), "")
    return " ".join(said.split())[:TITLE_MAX]
