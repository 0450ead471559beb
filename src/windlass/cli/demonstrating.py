"""`windlass demo`: a whole agent session on the embedded model, kept in SQLite, printed as it happens.

Nothing is scripted: the question is drawn at random, the model itself decodes which tool to call and with what.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from windlass.events.errors import UsageError

if TYPE_CHECKING:
    from windlass.models.base import Model
    from windlass.models.embedded import LoadProgress
    from windlass.runtime.agent import Agent
    from windlass.runtime.result import Result

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
"""Cities the clock knows: their time zone, and their offset in minutes where this machine has no zone data."""


def run(args: argparse.Namespace) -> int:
    """Does it."""
    city = args.city or random.choice(sorted(CITIES))
    if city not in CITIES:
        raise UsageError(f"the demo's clock does not know {city!r}: choose one of {', '.join(sorted(CITIES))}")
    return asyncio.run(demo(args.store, city))


def time_in(city: str, now: datetime | None = None) -> str:
    """The time of day in a city. Raises `KeyError` for one that is not known."""
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
    from windlass.models.constrained import ConstrainedModel
    from windlass.models.embedded import EmbeddedModel, model_path
    from windlass.models.tool_words import Example

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
    done = f"ready after {progress.elapsed_ms / 1000:.1f} s" if progress.stage == "ready" else "loading ..."
    print(f"embedded model: {done}", file=sys.stderr, flush=True)


def agent() -> Agent:
    """The demo's agent."""
    from windlass.events.items import ModelSettings
    from windlass.runtime.agent import Agent, Budget

    return Agent(
        "demo",
        model=model(),
        tools=tools(),
        budget=Budget(turns=TURNS_MAX),
        model_settings=ModelSettings(max_output_tokens=ANSWER_TOKENS_MAX),
    )


async def demo(store: str, city: str) -> int:
    """One session from its prompt to its end, told as it happens."""
    import windlass

    from .narrate import Narrator
    from .text import Paint

    paint, narrator = Paint(), Narrator(sys.stdout, sys.stdout)
    session_id = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    question = f"What time is it in {city}?"
    begun = time.monotonic()
    async with windlass.open(store, agents=[bound := agent()]) as runtime:
        session = await runtime.session(bound, session_id, title=question)
        print(f"session {session_id} in {store}")
        print("tools   add(x, y), clock(city)   model   SmolLM2 135M, in this process\n")
        print(paint(f"? {question}", "bold"), flush=True)
        witness = Witness()
        async for event in session.prompt(question):
            narrator.tell(event)
            witness.see(event)
        result = await session.result()
    right = witness.right(result, city)
    report(result, store, time.monotonic() - begun, right=right)
    return 0 if right else 1


class Witness:
    """Remembers what the model asked for and what it was told, so that the demo can say whether it went well."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.told: list[str] = []

    def see(self, event: Any) -> None:
        from windlass.events.blocks import plain_text
        from windlass.events.calls import ToolFinished
        from windlass.events.turns import ModelReplied

        if isinstance(event, ModelReplied) and event.body is not None:
            self.calls += [(found.call.tool, found.call.args) for found in event.body.calls]
        elif isinstance(event, ToolFinished) and event.body is not None:
            self.told.append(plain_text(event.body.content))

    def right(self, result: Result, city: str) -> bool:
        """Whether the model called the clock once, for the city that was asked about, and gave the time it was told."""
        return result.ok and self.calls == [("clock", {"city": city})] and self.told[0] in result.text


def report(result: Result, store: str, took_s: float, *, right: bool) -> None:
    """What it cost, and where to look next."""
    from . import words

    print(f"\n{result.status} after {words.plural(result.turns, 'turn')} and {took_s:.1f} s")
    print(f"cost    {words.dollars(result.cost_nanos)}, {words.tokens(result.usage)} (tokens)")
    if not right:
        print("the model did not call the clock as it should have; it is a very small one: run it again")
    print("\nevery step is in the log, sealed by a hash chain; look at it with")
    for verb in ("logs", "verify", "inspect"):
        print(f"  {program()} {verb} {result.session} --store {store}")


def program() -> str:
    """How this very program is called from here."""
    import shutil

    called = sys.argv[0]
    found = shutil.which("windlass")
    if not called.endswith("windlass") or (found and os.path.samefile(found, called)):
        return "windlass"
    return os.path.relpath(called)
