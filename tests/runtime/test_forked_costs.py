"""What a fork costs: what it sent itself, and what its origin had settled before; and why a limited run ended."""

from __future__ import annotations

import dataclasses

import msgspec

import windlass
from windlass.events.turns import ModelReplied, ModelRequested
from windlass.events.values.usage import Price
from windlass.testing.scripted import SCRIPTED_INFO, ScriptedModel, call

from .support import agent_of, sound

PRICE = Price(input=1_000, output=4_000)


@dataclasses.dataclass
class Sum:
    total: int


async def test_a_fork_behind_a_request_does_not_pay_for_what_it_never_sent():
    model = ScriptedModel(["first", "second"], info=msgspec.structs.replace(SCRIPTED_INFO, price=PRICE))
    agent = windlass.Agent("a", model=model)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        for text in ("one", "two"):
            await session.prompt(text)
            await session.result()
        records = [record async for record in session.records()]
        asked = [record.seq for record in records if isinstance(record.event, ModelRequested)]
        settled = next(record for record in records if isinstance(record.event, ModelReplied))
        before = (await session.state()).budget.spent.cost_nanos // 2
        assert settled.seq < asked[1]
        for number in range(3):
            fork = await session.fork(f"f{number}", at_seq=asked[1])
            state = await fork.state()
            assert state.budget.spent.cost_nanos <= before + 1, "only what was settled before the fork's point"
            assert state.requests.open == {}
            await sound(fork)


async def test_a_run_that_its_turns_ended_says_so_also_if_its_last_turn_gave_the_output():
    @windlass.tool
    def add() -> str:
        return "3"

    agent = agent_of(call("add"), call("add"), '{"total": 3}', tools=[add], output=Sum)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go", budget=windlass.Budget(turns=2))
        result = await session.result()
        assert (result.status, result.stop, result.output) == ("completed", "max_turns", Sum(3))
        await sound(session)
