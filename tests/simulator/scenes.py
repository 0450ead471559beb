"""A world without chance, for scenes that are told step by step: nothing goes wrong but what a scene asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from windlass.events.base import Command, Event, name_of
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.values.blocks import Text
from windlass.runtime.api.agent import Agent
from windlass.store.base import Key
from windlass.testing.scripted import Answer, ScriptedModel, by_history
from windlass.testing.simulator.chance import CALM
from windlass.testing.simulator.run import SimFailure, live
from windlass.testing.simulator.runner import Runner
from windlass.testing.simulator.tools import TOOLS
from windlass.testing.simulator.world import Kind, World

KEY = Key("sim", "s")


class Scene:
    """One world, told by a coroutine. `faults` sets what goes wrong from now on."""

    def __init__(self, *turns: Any, answer: Answer | None = None, kind: Kind = "plain", **agent: Any) -> None:
        self.world = World(0, steps=0, kind=kind)
        self.world.rates = CALM
        self.world.poll_ms = 1_000
        self.world.has_approver = False
        given: dict[str, Any] = {"model": ScriptedModel(answer or by_history(turns)), "tools": TOOLS, **agent}
        self.world.agent = Agent("sim", **given)

    def play(self, story: Callable[[Scene], Awaitable[None]]) -> None:
        """Runs the story to its end; a rule that breaks on the way fails the test."""
        error = live(self.world, story(self))  # type: ignore[arg-type]
        if error is not None:
            raise SimFailure(self.world, "safety", error) from error

    def faults(self, **rates: float) -> None:
        self.world.rates = msgspec.structs.replace(CALM, **rates)

    async def runner(self) -> Runner:
        """Another process, started."""
        runner = Runner(self.world, self.world.fresh())
        self.world.runners.append(runner)
        await runner.call(runner._start)
        return runner

    async def begin(self, runner: Runner) -> None:
        await runner.call(lambda: runner.runtime.session(self.world.agent, KEY.session))

    async def send(self, runner: Runner, command: Command, key: Key = KEY) -> None:
        await runner.call(lambda: runner.runtime.send(key, command))
        self.world.watch.told(key, command)

    def crash(self, runner: Runner) -> None:
        """Dies, and is not started again."""
        self.world._wanted_runners = 0
        self.world.crash(runner.actor, "scene")

    def names(self, key: Key = KEY) -> list[str]:
        return [name_of(event) for event in self.events(key)]

    def events(self, key: Key = KEY) -> list[Event]:
        return self.world.watch.logs[key].events

    async def until(self, name: str, *, key: Key = KEY, seconds: float = 60.0) -> None:
        """Waits until the log holds an event of this name."""
        deadline = self.world.loop.time() + seconds
        while name not in self.names(key):
            assert self.world.loop.time() < deadline, f"no {name} after {seconds} s: {self.names(key)}"
            await asyncio.sleep(0.1)


def prompt(name: str, text: str = "go on") -> PromptReceived:
    return PromptReceived(command_id=name, tokens=2, bytes=len(text), body=PromptBody(content=(Text(text=text),)))


def first(*turns: Any, then: Any) -> Answer:
    """Answers the first requests with these turns, whatever they ask, and every later one with `then`."""
    left = list(turns)
    return lambda request: left.pop(0) if left else then
