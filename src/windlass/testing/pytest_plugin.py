"""Fixtures for tests of agents in plain pytest, which finds this module by its entry point. Loads nothing of the
runtime until a test asks for a fixture, and touches no test that does not."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from windlass.models.base import Request
    from windlass.runtime.api.agent import Agent
    from windlass.runtime.api.runtime import Runtime

    from .scripted import ScriptedModel

RUNTIME = "windlass_runtime"


class Scripted:
    """Gives agents models that follow a script: `scripted(agent, call("count", text="a b"), "Two.")`."""

    def __init__(self) -> None:
        self.models: list[ScriptedModel] = []
        """The models that were made for this test, in their order."""

    def __call__(self, agent: Agent, *turns: Any) -> Agent:
        """The same agent on a model that says these turns, or what one function of the request gives."""
        from .scripted import ScriptedModel

        source = turns[0] if len(turns) == 1 and callable(turns[0]) else list(turns)
        self.models.append(ScriptedModel(source))
        return dataclasses.replace(agent, model=self.models[-1])

    @property
    def requests(self) -> Sequence[Request]:
        """What the model that was made last was sent."""
        if not self.models:
            pytest.fail("no agent was scripted in this test: call scripted(agent, ...) first", pytrace=False)
        return self.models[-1].requests


@pytest.fixture
def scripted() -> Scripted:
    """Puts agents on models that follow a script, offline and exact."""
    return Scripted()


@pytest.fixture
def windlass_runtime(request: pytest.FixtureRequest) -> Runtime:
    """A runtime in memory, open as long as an `async def` test runs, which needs no other plugin."""
    import windlass

    if not inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        pytest.fail(f"{RUNTIME} is open while an `async def` test runs: make this test one", pytrace=False)
    return windlass.open()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def` tests that ask for a runtime, each in a loop of its own; all others are left to others."""
    test = pyfuncitem.obj
    if RUNTIME not in pyfuncitem.funcargs or not inspect.iscoroutinefunction(test):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    runtime: Any = pyfuncitem.funcargs[RUNTIME]

    async def run() -> None:
        async with runtime:
            await test(**arguments)

    asyncio.run(run())
    return True
