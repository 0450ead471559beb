"""`windlass demo`: a whole agent session on the embedded model, kept in SQLite, printed as it happens.

Nothing is scripted: the question is drawn at random, the model itself decodes which tool to call and with what.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Literal

from windlass.cli import options

if TYPE_CHECKING:
    from datetime import datetime

    from windlass.models.base import Model
    from windlass.models.embedded.model import LoadProgress
    from windlass.runtime.api.agent import Agent
    from windlass.runtime.api.result import Result

EXAMPLES = """examples:
  windlass demo                      a session on the embedded model, kept in the store of this workspace
  windlass demo --city Nairobi       ask about this city
  windlass demo --store work.db      keep it elsewhere

It needs the embedded model: 'windlass models pull embedded' fetches it, once. No key and no network are used.
exit codes: 0 the model called the tool and answered, 1 it did not, 2 wrong usage
"""

TURNS_MAX = 6

ANSWER_TOKENS_MAX = 120

City = Literal[
    "Paris",
    "Lisbon",
    "Oslo",
    "Tokyo",
    "Berlin",
    "Rome",
    "Madrid",
    "Cairo",
    "Lima",
    "Vienna",
    "Dublin",
    "Athens",
    "Seoul",
    "Delhi",
    "Boston",
    "Prague",
    "Zurich",
    "Havana",
    "Nairobi",
    "Sydney",
]
"""What the clock can be asked. The tool's schema says so, and the model cannot write anything else."""

CITIES: dict[str, tuple[str, int]] = {
    "Paris": ("Europe/Paris", 60),
    "Lisbon": ("Europe/Lisbon", 0),
    "Oslo": ("Europe/Oslo", 60),
    "Tokyo": ("Asia/Tokyo", 540),
    "Berlin": ("Europe/Berlin", 60),
    "Rome": ("Europe/Rome", 60),
    "Madrid": ("Europe/Madrid", 60),
    "Cairo": ("Africa/Cairo", 120),
    "Lima": ("America/Lima", -300),
    "Vienna": ("Europe/Vienna", 60),
    "Dublin": ("Europe/Dublin", 0),
    "Athens": ("Europe/Athens", 120),
    "Seoul": ("Asia/Seoul", 540),
    "Delhi": ("Asia/Kolkata", 330),
    "Boston": ("America/New_York", -300),
    "Prague": ("Europe/Prague", 60),
    "Zurich": ("Europe/Zurich", 60),
    "Havana": ("America/Havana", -300),
    "Nairobi": ("Africa/Nairobi", 180),
    "Sydney": ("Australia/Sydney", 600),
}
"""Cities the clock knows: their time zone, and their offset in minutes for a machine without zone data."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_store(parser)
    parser.add_argument("--city", metavar="NAME", help="the city to ask about (one of twenty, at random)")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio
    import random

    from windlass.events.errors import UsageError

    city = args.city or random.choice(sorted(CITIES))
    if city not in CITIES:
        raise UsageError(f"the demo's clock does not know {city!r}: choose one of {', '.join(sorted(CITIES))}")
    return asyncio.run(demo(args, city))


def time_in(city: str, now: datetime | None = None) -> str:
    """The time of day in a city. Raises `KeyError` for one that is not known."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    zone, offset = CITIES[city]
    at = now or datetime.now(UTC)
    try:
        return at.astimezone(ZoneInfo(zone)).strftime("%H:%M")
    except ZoneInfoNotFoundError:
        return (at + timedelta(minutes=offset)).strftime("%H:%M")


def tools() -> list[Any]:
    """The two tools that the model may choose from."""
    from windlass.tools.tool import tool

    @tool(contract="pure")
    def add(x: int, y: int) -> str:
        "Add two numbers."
        return str(x + y)

    @tool(contract="pure")
    def clock(city: City) -> str:
        "Get the time in a city."
        return time_in(city)

    return [add, clock]


def model() -> Model:
    """The embedded model with a few turns to learn from: about other cities and other numbers than are asked about. A
    model this small calls a tool only if it has seen it done."""
    from windlass.models.embedded.constrained import ConstrainedModel
    from windlass.models.embedded.model import EmbeddedModel, model_path
    from windlass.models.embedded.tool_prompt import Example

    sums = Example(
        asked="What is 3 + 14?", tool="add", arguments={"x": 3, "y": 14}, result="17", answer="3 + 14 is 17."
    )
    times = [
        Example(
            asked=f"What time is it in {city}?",
            tool="clock",
            arguments={"city": city},
            result=at,
            answer=f"In {city} it is {at}.",
        )
        for city, at in (("Bern", "09:41"), ("Milan", "17:05"), ("Quito", "02:30"))
    ]
    return ConstrainedModel(EmbeddedModel(model_path(), on_load=loading), examples=(sums, *times))


def loading(progress: LoadProgress) -> None:
    """Says that the model is being read, which takes a moment."""
    import sys

    from windlass.cli.terminal.text import put

    done = f"ready after {progress.elapsed_ms / 1000:.1f} s" if progress.stage == "ready" else "loading ..."
    put(f"embedded model: {done}", sys.stderr, flush=True)


def agent() -> Agent:
    """The demo's agent."""
    from windlass.events.values.items import ModelSettings
    from windlass.runtime.api.agent import Agent, Budget

    return Agent(
        "demo",
        model=model(),
        tools=tools(),
        budget=Budget(turns=TURNS_MAX),
        model_settings=ModelSettings(max_output_tokens=ANSWER_TOKENS_MAX),
    )


async def demo(args: argparse.Namespace, city: str) -> int:
    """One session from its prompt to its end, told as it happens."""
    import os
    import sys
    import time
    from datetime import UTC, datetime

    import windlass
    from windlass.cli.screen.live_printer import Narrator
    from windlass.cli.terminal.text import Paint, put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.runtime.streams.record import Record

    paint, narrator = Paint(), Narrator(sys.stdout, sys.stdout)
    session_id = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    question = f"What time is it in {city}?"
    begun = time.monotonic()
    async with windlass.open(options.place_to_write(args), agents=[bound := agent()]) as runtime:
        session = await runtime.session(bound, session_id, title=question)
        put(f"session {session_id} in {spelt(options.told_place(args))}")
        put("tools   add(x, y), clock(city)   model   SmolLM2 135M, in this process\n")
        put(paint(f"? {question}", "bold"), flush=True)
        witness = Witness()
        async for told in session.prompt(question).tail():
            narrator.tell(told)
            witness.see(told.event if isinstance(told, Record) else told)
        result = await session.result()
    right = witness.right(result, city)
    report(result, args.store, time.monotonic() - begun, right=right)
    return 0 if right else 1


class Witness:
    """Remembers what the model asked for and what it was told, so that the demo can say whether it went well."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.told: list[str] = []

    def see(self, event: Any) -> None:
        from windlass.events.tools.calls import ToolFinished
        from windlass.events.turns import ModelReplied
        from windlass.events.values.blocks import plain_text

        if isinstance(event, ModelReplied) and event.body is not None:
            self.calls += [(each.call.tool, each.call.args) for each in event.body.calls]
        elif isinstance(event, ToolFinished) and event.body is not None:
            self.told.append(plain_text(event.body.content))

    def right(self, result: Result, city: str) -> bool:
        """Whether the model called the clock once, for the city that was asked about, and gave the time it was told."""
        return result.ok and self.calls == [("clock", {"city": city})] and self.told[0] in result.text


def report(result: Result, store: str | None, took_s: float, *, right: bool) -> None:
    """What it cost, and where to look next."""
    from windlass.cli.screen.number_words import dollars, plural, tokens
    from windlass.cli.terminal.text import put

    put(f"\n{result.status} after {plural(result.turns, 'turn')} and {took_s:.1f} s")
    put(f"cost    {dollars(result.cost_nanos)}, {tokens(result.usage)} (tokens)")
    if not right:
        put("the model did not call the clock as it should have; it is a very small one: run it again")
    put("\nevery step is in the log, sealed by a hash chain; look at it with")
    for verb in ("logs", "verify", "inspect"):
        put(f"  {program()} {verb} {result.session}{f' --store {store}' if store else ''}")


def program() -> str:
    """How this very program is called from here."""
    import os
    import shutil
    import sys

    called = sys.argv[0]
    installed = shutil.which("windlass")
    if not called.endswith("windlass") or (installed and os.path.samefile(installed, called)):
        return "windlass"
    return os.path.relpath(called)
