"""`windlass schedule`: make, list, look at and steer schedules."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.events.values.plans import SchedulePlan
    from windlass.kernel.parts import schedules as kernel_schedules
    from windlass.runtime.api.runtime import Runtime
    from windlass.runtime.api.schedules import Schedule
    from windlass.store.base import IndexRow, Key, Store

EXAMPLES = """examples:
  windlass schedule add nightly --agent report.py:reporter --cron '0 2 * * *' --zone Europe/Berlin --prompt 'Report.'
  windlass schedule add pulse --agent report.py:reporter --every 60 --to march --signal pulse
  windlass schedule list
  windlass schedule show nightly
  windlass schedule diagram nightly --svg       its plan, the times that come next and what they begin, drawn
  windlass schedule pause nightly               so do resume, remove and run-now
  windlass schedule serve --agent report.py:reporter       drives schedules and what they begin, until stopped

A schedule works while some process has its agent open; what was missed meanwhile is made up for as --misfire says.
"""
STEERED = {"pause": "pause", "resume": "resume", "remove": "remove", "run-now": "run_now"}
OVERLAPS = ("skip", "queue", "cancel", "allow")
SCHEDULE = {"windlass.kind": "schedule"}
LOOK_S = 2.0
"""How often schedules are looked for that were made meanwhile."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("action", choices=("add", "list", "show", "diagram", *STEERED, "serve"), help="what to do")
    parser.add_argument("session", nargs="?", default="", metavar="NAME", help="the schedule")
    options.add_store(parser)
    options.add_wait(parser)
    parser.add_argument("--svg", action="store_true", help="of diagram: draw it as SVG, and not as Mermaid text")
    group = parser.add_argument_group("add")
    group.add_argument("--cron", metavar="EXPR", help="when, in five fields as cron has them")
    group.add_argument("--every", type=float, metavar="S", help="or again and again, every so many seconds")
    group.add_argument("--zone", default="UTC", metavar="NAME", help="the time zone of --cron (UTC)")
    group.add_argument("--prompt", default="", metavar="TEXT", help="what the agent is told")
    group.add_argument("--to", default="", metavar="SESSION", help="the session that is told; else a new one each")
    group.add_argument("--signal", default="", metavar="KIND", help="send a signal to it instead of a prompt")
    group.add_argument("--misfire", choices=("skip", "once", "all"), default="once", help="for times that were missed")
    group.add_argument("--overlap", choices=OVERLAPS, default="skip", help="if the one before is still at work")
    options.add_agent(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    from windlass.events.errors import UsageError

    if args.action not in ("list", "serve") and not args.session:
        raise UsageError(f"which schedule? windlass schedule {args.action} NAME")
    if args.action in STEERED:
        from windlass.cli.stores import on_session

        return on_session(args, steer)
    verbs = {"add": add, "list": listed, "show": show, "diagram": diagram, "serve": serve}
    return asyncio.run(verbs[args.action](args))


async def steer(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends what the schedule is to do."""
    from windlass.cli import command_delivery, identity, shell_lines
    from windlass.events.schedules import ScheduleReceived
    from windlass.runtime.streams.log_reader import LogReader

    check_schedule(key, (await LogReader(store).fold(key)).state.schedule)
    action = STEERED[args.action]
    command = ScheduleReceived(command_id=identity.fresh_command_id(), actor=identity.actor(), action=action)  # type: ignore[arg-type]
    told = f"schedule: {args.action}"
    return await command_delivery.send(store, key, command, told, args, shell_lines.serve_of)


async def add(args: argparse.Namespace) -> int:
    """Makes one, and says when it begins something for the first time."""
    import windlass
    from windlass.cli.agents import agent_of
    from windlass.cli.terminal.text import tell
    from windlass.events.errors import UsageError

    if (args.cron is None) == (args.every is None):
        raise UsageError("when? give either --cron '0 2 * * *' or --every SECONDS")
    if not args.signal and not args.prompt:
        raise UsageError("what is to be done? give --prompt TEXT, or --signal KIND with --to SESSION")
    agent = agent_of(args, windlass.SessionOptions())
    place = options.place_to_write(args)
    async with windlass.open(place, agents=[agent], tenant=args.tenant, take_up=False) as runtime:
        made = await runtime.schedule(
            agent,
            args.session,
            cron=args.cron,
            every=args.every,
            timezone=args.zone,
            prompt=args.prompt,
            session=args.to,
            signal=args.signal,
            misfire=args.misfire,
            overlap=args.overlap,
        )
        await runtime.drive(made.schedule_id)
        tell(f"schedule {made.schedule_id} of agent {agent.name}: next {await due(made)}")
    return 0


async def due(schedule: Schedule) -> str:
    """When it begins something next, in words."""
    state = await schedule.session.state()
    here = state.schedule
    return told(here.next_ms, here.plan.timezone if here.plan is not None else "UTC")


def told(at_ms: int | None, zone: str) -> str:
    if at_ms is None:
        return "-"
    import datetime

    from windlass.runtime.schedules.times import zone_of

    at = datetime.datetime.fromtimestamp(at_ms / 1000, zone_of(zone))
    return at.isoformat(sep=" ", timespec="seconds")


async def listed(args: argparse.Namespace) -> int:
    """Prints one line for each."""
    from windlass.cli import stores
    from windlass.cli.terminal.text import put, tell
    from windlass.cli.terminal.visible_text import spelt
    from windlass.store.base import Query

    async with stores.opened(args) as store:
        rows = await store.index.find(Query(tenant=args.tenant, metadata=SCHEDULE, limit=1000))
        lines = [f"{spelt(row.session)}  {await _stands(store, args.tenant, row)}  {spelt(row.agent)}" for row in rows]
    if not rows:
        tell("no schedules yet: make one with 'windlass schedule add'")
    for line in lines:
        put(line)
    return 0


async def _stands(store: Store, tenant: str, row: IndexRow) -> str:
    """How a schedule stands, in words."""
    from windlass.runtime.streams.log_reader import LogReader
    from windlass.store.base import Key

    key = Key(tenant, row.session)
    here = (await LogReader(store).fold(key)).state.schedule
    zone = here.plan.timezone if here.plan is not None else "UTC"
    words = f"next {told(here.next_ms, zone)}" if here.status == "active" else here.status
    return f"{words} (a command waits)" if await store.inbox.waiting(key, limit=1) else words


def check_schedule(key: Key, here: kernel_schedules.Schedule) -> SchedulePlan:
    """The plan of a schedule. Raises `UsageError` for another session."""
    from windlass.events.errors import UsageError

    if here.plan is None:
        raise UsageError(f"{key.session!r} is no schedule: 'windlass schedule list' lists them")
    return here.plan


async def show(args: argparse.Namespace) -> int:
    """Prints the plan, what comes next, and how it went so far."""
    from windlass.cli import stores
    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.runtime.streams.log_reader import LogReader

    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        here = (await LogReader(store).fold(key)).state.schedule
    plan = check_schedule(key, here)
    when = f"cron {plan.cron} in {plan.timezone}" if plan.cron else f"every {(plan.every_ms or 0) / 1000:g} s"
    put(f"schedule   {spelt(key.session)}, {here.status}")
    put(f"when       {when}; next {told(here.next_ms, plan.timezone)}")
    put(f"what       {spelt(plan.signal or plan.prompt)} -> {spelt(plan.session or 'a new session each time')}")
    put(f"policies   misfire {plan.misfire}, overlap {plan.overlap}")
    put(f"so far     {here.begun} begun, {here.skipped} skipped; last in {spelt(here.last or '-')}")
    return 0


async def diagram(args: argparse.Namespace) -> int:
    """Draws it."""
    from windlass.cli import stores
    from windlass.cli.terminal.text import put
    from windlass.runtime.schedules import diagrams
    from windlass.runtime.streams.log_reader import LogReader

    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        here = (await LogReader(store).fold(key)).state.schedule
    plan, draw = check_schedule(key, here), diagrams.svg if args.svg else diagrams.mermaid
    for line in draw(key.session, plan, stores.now_ms(), status=here.status, last=here.last).splitlines():
        put(line)
    return 0


async def serve(args: argparse.Namespace) -> int:
    """Drives the agent's schedules and what they begin, says what that is, until the process is asked to stop."""
    import asyncio
    import os
    import signal

    import windlass
    from windlass.cli.agents import agent_of
    from windlass.cli.terminal.text import tell
    from windlass.cli.terminal.visible_text import spelt

    agent = agent_of(args, windlass.SessionOptions())
    async with windlass.open(options.place_to_write(args), agents=[agent], tenant=args.tenant) as runtime:
        others = [row for row in await runtime.sessions(metadata=SCHEDULE, limit=1000) if row.agent != agent.name]
        for row in others:
            tell(f"not driven here: {spelt(row.session)}, a schedule of agent {spelt(row.agent)}")
        with runtime.drained_on_sigterm():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, os.kill, os.getpid(), signal.SIGTERM)  # both drain
            tell(f"driving the schedules of {agent.name}; Ctrl-C ends what has begun and leaves, twice leaves at once")
            try:
                await _narrated(runtime, agent.name)
            finally:
                loop.remove_signal_handler(signal.SIGINT)
    return 0


async def _narrated(runtime: Runtime, agent: str) -> None:
    """Says of each schedule what it begins, also of those that are made meanwhile."""
    import asyncio

    followed: dict[str, asyncio.Task[None]] = {}
    try:
        while True:
            for row in await runtime.sessions(metadata=SCHEDULE, agent=agent, limit=1000):
                if row.session not in followed:
                    followed[row.session] = asyncio.ensure_future(_follow(runtime, row.session))
            await asyncio.sleep(LOOK_S)
    finally:
        for task in followed.values():
            task.cancel()
        await asyncio.gather(*followed.values(), return_exceptions=True)


async def _follow(runtime: Runtime, schedule_id: str) -> None:
    from windlass.cli.terminal.text import tell
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.schedules import OccurrenceDelivered, OccurrenceSkipped

    session, name = await runtime.get(schedule_id), spelt(schedule_id)
    async for event in session.events(after=await session.cursor()):
        if isinstance(event, OccurrenceDelivered):
            more = f": {spelt(event.note)}" if event.note else ""
            tell(f"{name}: {event.outcome} {spelt(event.session_id)}{more}")
        elif isinstance(event, OccurrenceSkipped):
            tell(f"{name}: {event.count} left out ({event.reason})")
