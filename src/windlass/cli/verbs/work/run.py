"""`windlass run`: one prompt to an agent, streamed as it works, kept in a store; or a session that is resumed."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from windlass.cli import options
from windlass.cli.exits import ASKED, FAILED, INTERRUPTED, OK, SLEEPING

if TYPE_CHECKING:
    from windlass.cli.interruption import Interruption
    from windlass.cli.kept_session import Kept
    from windlass.cli.screen.live_printer import Narrator
    from windlass.cli.terminal.interview import Interviewer
    from windlass.events.commands import PromptBody
    from windlass.kernel.state import State
    from windlass.runtime.api.result import Result
    from windlass.runtime.api.session import Session
    from windlass.runtime.api.termination import Termination
    from windlass.runtime.bind.bound_agent import Bound

EXAMPLES = """examples:
  windlass run 'What is in this folder?' --tool list --tool read
  windlass run --agent clerk.py:clerk 'Pay the March invoices.' --session march
  windlass run --session march --agent clerk.py:clerk      resume what march has left to do
  git diff | windlass run 'Review this.' --model sonnet --budget-usd 0.10
  windlass run 'Who is on this?' --attach team.png --output-schema people.json
  windlass run 'Why does this fail?' --attach src/pay.py:40-90 --attach tests

The session is kept in the store, so that it can be looked at, resumed and forked. What options said of its agent holds
until they say otherwise: only --agent and --tool FILE.py:NAME, which bring code, are given again. Text goes to
standard output, everything else to standard error.
What needs a person is asked about on the terminal; if nobody is there the run ends, and 'windlass approve' or
'windlass answer' lets it go on. If a tool asks while it runs, the run waits, and says so.
exit codes: 0 completed, 1 failed, 2 wrong usage, 3 waits for a person, 4 asleep until a time, 130 interrupted,
143 stopped by SIGTERM: what ran was brought to its end within --drain, and the rest is resumed later
"""

CODES = {"completed": OK, "failed": FAILED, "asked": ASKED, "sleeping": SLEEPING}

CREDENTIALS = ("credentials",)
"""What a run waits for whose model wants a key."""
SETTLE_S = 2.0
"""How long what was told last may take to reach the screen."""
LOOK_S = 0.005


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("prompt", metavar="PROMPT", nargs="*", help="what to do (else standard input)")
    parser.add_argument("--session", metavar="ID", help="which session: resumed if it exists, else created")
    options.add_attach(parser, "give the model this with the prompt")
    parser.add_argument("--quiet", action="store_true", help="print the model's text only, of answers that are whole")
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON; the model's text goes to standard error"
    )
    parser.add_argument("--verbose", action="store_true", help="print the agent's setup first")
    options.add_drain(parser)
    options.add_workspace(parser)
    options.add_sandbox(parser)
    options.add_store(parser)
    options.add_agent(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    from windlass.cli.prompt_input import attachments_of, prompt_of
    from windlass.events.commands import PromptBody
    from windlass.events.errors import UsageError

    said = PromptBody(content=prompt_of(args.prompt), attachments=attachments_of(args.attach))
    if not said.content and not said.attachments and not args.session:
        raise UsageError("nothing to do: write a prompt, pipe one in, or name a --session to resume")
    try:
        return asyncio.run(perform(args, said))
    except asyncio.CancelledError:  # by a second Ctrl-C
        return INTERRUPTED


async def perform(args: argparse.Namespace, said: PromptBody) -> int:
    """The run, from the greeting to the farewell."""
    import sys
    import time
    from contextlib import ExitStack, redirect_stdout

    from windlass.cli.interruption import Interruption
    from windlass.cli.kept_session import kept
    from windlass.cli.prompt_input import title_of
    from windlass.cli.screen.attachments import attachment_lines
    from windlass.cli.screen.live_printer import Narrator
    from windlass.cli.shell_lines import children_left, jobs_left
    from windlass.cli.terminal.interview import Interviewer
    from windlass.cli.terminal.keyboard import Keyboard, is_interactive

    out = sys.stderr if args.json else sys.stdout
    narrator = Narrator(out, sys.stderr, quiet=args.quiet or args.json)
    begun = time.monotonic()
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption(narrator))
        if args.json:
            # What an agent's own code prints is no part of the result.
            stack.enter_context(redirect_stdout(sys.stderr))
        before = await kept(args)
        asked: Interviewer | None = None
        if is_interactive() and not args.json:
            asked = Interviewer(stack.enter_context(Keyboard()), before=narrator.rest)
        opened = at_server if options.url_of(args) else at_store
        async with opened(args, before, title_of(said.content), narrator, asked) as (session, greeting):
            with terminated(session, narrator, args):
                await greeting
                for line in attachment_lines(said.attachments):
                    narrator.note(line)
                held = (
                    None if asked is not None and not options.url_of(args) else held_by(session, narrator, asked, args)
                )
                result = await work(session, before.state, said, narrator, asked, interruption, held)
                if options.url_of(args) and asked is not None:
                    result = await asked_on(session, narrator, asked, result)
            left = await session.state()
    narrator.rest()
    if left.jobs.open:
        narrator.note(jobs_left(len(left.jobs.open), session.session_id, args), "yellow")
    if left.children.open and not left.active:
        narrator.note(children_left(len(left.children.open), session.session_id, args), "yellow")
    return farewell(result, session.session_id, args, narrator, time.monotonic() - begun)


@asynccontextmanager
async def at_store(
    args: argparse.Namespace, before: Kept, title: str, narrator: Narrator, asked: Interviewer | None
) -> AsyncIterator[tuple[Session, Awaitable[None]]]:
    """The session in a store, driven here with the agent that the options describe; and its greeting."""
    import os

    import windlass
    from windlass.cli.agents import agent_of, options_of
    from windlass.runtime.bind.session_options import merged

    given = options_of(args, before.options)
    in_force = merged(before.options, given)
    agent = agent_of(args, in_force)
    async with windlass.open(
        options.place_to_write(args),
        agents=[agent],
        approver=asked,
        tenant=args.tenant,
        take_up=False,
        drain_ms=options.drain_ms(args),
    ) as runtime:
        if asked is not None:
            asked.session = args.session = args.session or runtime.ports.fresh_id()
        session = await runtime.session(
            agent, args.session, title=title, workspace=os.curdir, trusted=args.trust, options=given
        )
        if (warning := options.sandbox_warning(args, in_force)) is not None:
            narrator.note(warning)
        yield session, greet(session, runtime.bind(agent).with_options(in_force), narrator, args, asked)


@asynccontextmanager
async def at_server(
    args: argparse.Namespace, before: Kept, title: str, narrator: Narrator, asked: Interviewer | None
) -> AsyncIterator[tuple[Session, Awaitable[None]]]:
    """The session of a server, which drives it; and its greeting."""
    from windlass.cli.served import connected, served_session

    async with connected(args) as runtime:
        session = await served_session(runtime, args, title=title)
        args.session = session.session_id
        if asked is not None:
            asked.session = session.session_id
        yield session, greet_served(session, narrator, args)


async def greet_served(session: Session, narrator: Narrator, args: argparse.Namespace) -> None:
    """What works for a person there, in a line."""
    from windlass.cli.terminal.visible_text import spelt

    state = await session.state()
    tools = ", ".join(map(spelt, state.toolset.tools)) or "none"
    about = f"agent {spelt(state.setup.agent.name)} · model {spelt(state.setup.model.name)} · tools {tools}"
    narrator.note(f"session {spelt(session.session_id)} at {spelt(options.told_place(args))} · {about}")


def held_by(
    session: Session, narrator: Narrator, asked: Interviewer | None, args: argparse.Namespace
) -> Callable[[], Awaitable[None]]:
    """What is done when a tool asks while it runs, and no approver of this process hears of it: it is put before the
    person, if somebody is there, or said how to answer it. Until then the run waits."""
    from windlass.cli.open_requests import answer_open
    from windlass.cli.shell_lines import at, word

    async def held() -> None:
        if asked is None or not await answer_open(session, asked, narrator.note):
            narrator.note(
                f"it waits for you: windlass show {word(session.session_id)}{at(args)}", "yellow", always=True
            )

    return held


async def asked_on(session: Session, narrator: Narrator, asked: Interviewer, result: Result | None) -> Result | None:
    """Puts before the person what a session of a server waits for, as long as they answer."""
    from windlass.cli.open_requests import answer_open

    while result is not None and result.status == "asked" and await session.runtime.host.views.asked(session.key):
        if not await answer_open(session, asked, narrator.note):
            break
        result = await session.result()
    return result


async def greet(session: Session, bound: Bound, narrator: Narrator, args: argparse.Namespace, asked: Any) -> None:
    """The setup in few lines, so that a person knows what is about to work for them; all of it with --verbose."""
    from windlass.cli.kept_session import tell_beginning
    from windlass.cli.screen.sandbox_words import sandbox_name
    from windlass.cli.screen.setup import files_line, setup_lines
    from windlass.cli.terminal.visible_text import spelt

    state = await session.state()
    place = options.told_place(args)
    model, names, kinds = in_effect(state, bound)
    sandbox = bound.options.sandbox
    where = f" · sandbox {sandbox_name(sandbox)}" if sandbox is not None or "shell" in kinds else ""
    tools = ", ".join(map(spelt, names)) or "none"
    narrator.note(
        f"session {spelt(session.session_id)} in {spelt(place)} · model {spelt(model)} · tools {tools}{where}"
    )
    summary = await session.setup()
    for line in setup_lines(summary) if args.verbose else filter(None, [files_line(summary)]):
        narrator.note(line)
    await tell_beginning(session, narrator)
    if asked is not None:
        narrator.note(asked.explained)


def in_effect(state: State, bound: Bound) -> tuple[str, list[str], set[str]]:
    """The model, the tools and their kinds that the session is about to have: the log's, unless the agent is another
    now."""
    setup = bound.setup()
    before = state.setup.terms.model
    model = state.setup.model if setup.model == before else setup.model
    changed = setup.agent.digest != state.setup.agent.digest
    tools = setup.tools if changed else tuple(state.toolset.tools.values())
    return model.name, [spec.name for spec in tools], {spec.kind for spec in tools}


def terminated(session: Session, narrator: Narrator, args: argparse.Namespace) -> Termination:
    """What a SIGTERM does: what runs is brought to its end, and the program ends with it if there is more to do."""
    import asyncio

    from windlass.cli.shell_lines import again
    from windlass.runtime.api.termination import Termination

    task = asyncio.current_task()

    def then() -> None:
        ended = session.runtime.slots.at(session.key).hub.terminal is not None
        if task is not None and not ended:
            task.cancel()
            narrator.note(f"stopped; resume with: {again('run', session.session_id, args)}", "yellow", always=True)

    return Termination(session.runtime.drain, before=lambda: narrator.note(options.DRAINING, "yellow"), then=then)


async def work(
    session: Session,
    before: State | None,
    said: PromptBody,
    narrator: Narrator,
    asked: Interviewer | None,
    interruption: Interruption,
    held: Callable[[], Awaitable[None]] | None = None,
) -> Result | None:
    """Sends the prompt and tells what follows; without one, resumes what the session is owed. What the session waits
    for is asked about, if somebody is there. Gives how it ended; None if it never ran.

    `before` is how it stood when it was not driven yet: a session that is opened goes on at once, and may have ended
    by the time this begins."""
    import asyncio

    before = before or await session.state()
    seen = [before.seq]
    watching = asyncio.create_task(watch(session, narrator, seen, held))
    try:
        if said.content or said.attachments:
            return await answered(
                session, narrator, asked if before.asks.open or before.children.open else None, said, interruption
            )
        interruption.session = session
        await go_on(session, narrator, asked, before)
        result = await result_of(session)
        ended = result is not None and result.status in ("completed", "failed", "cancelled")
        if ended and not before.active and happened_nothing(before, await session.state()):
            narrator.note("nothing was left to do; this is how it ended before:")
        return result
    finally:
        await settle(session, seen)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def answered(
    session: Session, narrator: Narrator, asked: Interviewer | None, said: PromptBody, interruption: Interruption
) -> Result:
    """Sends the prompt. One that comes while a run waits for somebody is kept, and read once that is answered: here,
    if there is somebody to be asked, or later."""
    from windlass.cli.open_requests import answer_open

    command_id = await session.prompt(said.content, attachments=said.attachments)
    interruption.session = session  # from here on there is something to interrupt; before, Ctrl-C leaves
    if asked is not None:
        await answer_open(session, asked, narrator.note)
    result = await session.result(command_id)
    if result.status == "asked" and (await session.state()).queue.waiting:
        narrator.note(f"the prompt is kept: it is read once {', '.join(result.waiting_for)} is answered", "yellow")
    return result


async def go_on(session: Session, narrator: Narrator, asked: Interviewer | None, before: State) -> None:
    """Has a session do what it is owed, commands that wait in its inbox first; asks what it waits for, if somebody
    is there; and resumes a run that was interrupted."""
    from windlass.cli.open_requests import answer_open
    from windlass.runtime.operate.open_requests import something_open

    await session.runtime.drive(session.session_id)
    await session.wait_idle()
    await go_on_below(session)
    state = await session.state()
    if asked is not None and await session.runtime.host.views.asked(session.key):
        await answer_open(session, asked, narrator.note)
    elif state.run.resumable and not something_open(state) and happened_nothing(before, state):
        await session.wake()
    await session.wait_idle()
    await go_on_below(session)


async def go_on_below(session: Session) -> None:
    """Has children in the background do what they are owed, such as what was approved when nobody drove them, and the
    session read how they ended. A server does so by itself."""
    runtime, tried = session.runtime, set[str]()
    while runtime.host.elsewhere is None:
        below = [one for one in await session.processes() if one.depth and one.state in ("ready", "running")]
        owed = [one.session for one in below if one.session not in tried]
        if not owed:
            return
        for name in owed:
            tried.add(name)
            await runtime.drive(name)
        await runtime.drive(session.session_id)
        await session.wait_idle()


def happened_nothing(before: State, after: State) -> bool:
    """Whether no run began in between."""
    return before.run.run_id == after.run.run_id


async def settle(session: Session, seen: list[int]) -> None:
    """Lets what is on record reach the screen."""
    import asyncio

    hub = session.runtime.slots.at(session.key).hub
    for _ in range(int(SETTLE_S / LOOK_S)):
        await asyncio.sleep(LOOK_S)
        if seen[0] >= hub.seq:
            return


async def watch(
    session: Session, narrator: Narrator, seen: list[int], held: Callable[[], Awaitable[None]] | None
) -> None:
    """Tells what happens, and notes how far it has come."""
    from windlass.events.questions import QuestionRequested
    from windlass.runtime.streams.record import Record

    async for told in session.tail(after=seen[0]):
        narrator.tell(told)
        if isinstance(told, Record):
            seen[0] = told.seq
            if held is not None and isinstance(told.event, QuestionRequested) and told.event.inside:
                await held()


async def result_of(session: Session) -> Result | None:
    """How it ended; None if it never ran."""
    from windlass.events.errors import UsageError

    try:
        return await session.result()
    except UsageError:
        return None


def farewell(result: Result | None, session: str, args: argparse.Namespace, narrator: Narrator, took_s: float) -> int:
    """What it cost and how to go on, on standard error; and the exit code."""
    from windlass.cli.screen.number_words import dollars, plural, tokens
    from windlass.cli.shell_lines import again, at, word
    from windlass.cli.terminal.text import tell_json

    if result is None:
        narrator.note("nothing to do: the session has had no prompt yet")
        return OK
    if args.json:
        tell_json(result)
    used = f"{tokens(result.usage)} · {dollars(result.cost_nanos)}"
    narrator.note(f"{result.status} · {plural(result.turns, 'turn')} · {used} · {took_s:.1f} s")
    if result.waiting_for == CREDENTIALS:
        narrator.note(f"then resume with: {again('run', session, args)}", "yellow")
    elif result.status == "asked":
        narrator.note(f"it waits for you: windlass show {word(session)}{at(args)}", "yellow")
    elif result.status in ("sleeping", "interrupted"):
        narrator.note(f"resume with: {again('run', session, args)}", "yellow")
    return CODES.get(result.status, INTERRUPTED)
