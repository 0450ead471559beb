"""`windlass cost` over a store: its sum is what was spent, once, however sessions contain each other."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import msgspec
import pytest

import windlass
from windlass.cli.main import main
from windlass.events.turns import ModelReplied
from windlass.events.values.usage import Price
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Query
from windlass.testing.scripted import SCRIPTED_INFO, ScriptedModel, by_history, call

FILLED_S = 120
PRICED = msgspec.structs.replace(SCRIPTED_INFO, price=Price(input=1_000_000, output=4_000_000))


def agent(name: str, *turns: Any, **more: Any) -> windlass.Agent:
    model = ScriptedModel(by_history(list(turns)), info=PRICED)
    return windlass.Agent(name, model, description="helps", **more)


def spawn(name: str, mode: str) -> Any:
    return call("spawn", agent=name, task="do it", mode=mode)


async def at_rest(runtime: windlass.Runtime) -> None:
    """Waits until nobody in the tree works, and nobody waits for an end."""
    while True:
        rows = await runtime.sessions(root="root")
        states = [await (await runtime.get(row.session)).state() for row in rows]
        if len(rows) == 5 and not any(state.active or state.children.open for state in states):
            return
        await asyncio.sleep(0.01)


async def filled(folder: pathlib.Path) -> dict[str, int]:
    """A root with a child in each mode, one of them with a child of its own, and two forks of the root. What all
    replies in the logs have used, each counted where it was made."""
    leaf = agent("leaf", "a leaf")
    middle = agent("middle", spawn("leaf", "foreground"), "a middle", agents=[leaf])
    root = agent("root", spawn("middle", "foreground"), spawn("leaf", "background"), spawn("leaf", "detached"),
                 "all of it", "told", "told", agents=[middle, leaf])  # fmt: skip
    async with windlass.open(str(folder / "windlass.db"), agents=[root, middle, leaf]) as runtime:
        session = await runtime.session(root, "root")
        await session.prompt("go")
        await session.result()
        await at_rest(runtime)
        store = runtime.store
        fork = await session.fork("fork")
        await fork.prompt("more")
        await fork.result()
        await fork.fork("again")
        used = {"input_tokens": 0, "output_tokens": 0, "cost_nanos": 0}
        for row in await store.index.find(Query()):
            key = Key("default", row.session)
            head = await store.log.head(key)
            first = head.origin.seq if head is not None and head.origin is not None else 0
            async for record in LogReader(store).records(key, after=first):
                if isinstance(record.event, ModelReplied):
                    used["input_tokens"] += record.event.usage.input_tokens
                    used["output_tokens"] += record.event.usage.output_tokens
                    used["cost_nanos"] += PRICED.price.cost_nanos(record.event.usage)  # type: ignore[union-attr]
    return used


@pytest.fixture(scope="module")
def store_and_use(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, int]]:
    folder = tmp_path_factory.mktemp("costs")
    return str(folder / "windlass.db"), asyncio.run(asyncio.wait_for(filled(folder), FILLED_S))


def test_the_sum_over_a_store_counts_each_request_once(store_and_use, capsys):
    place, used = store_and_use
    assert main(["cost", "--store", place]) == 0
    *rows, total, words = capsys.readouterr().out.splitlines()
    assert len(rows) == 1 + 7  # the head; root, four below it, two forks
    cost = f"${used['cost_nanos'] / 1e9:.4f}".rstrip("0")
    assert total.split() == ["sum", f"{used['input_tokens']:,}", f"{used['output_tokens']:,}", cost]
    assert words.startswith("The sum counts each request once")


def test_programs_are_told_what_each_session_used_itself(store_and_use, capsys):
    place, used = store_and_use
    assert main(["cost", "--store", place, "--json"]) == 0
    rows = {row["session"]: row for row in json.loads(capsys.readouterr().out)}
    for name, value in used.items():
        assert sum(row[f"own_{name}"] for row in rows.values()) == value
        assert rows["root"][f"own_{name}"] < rows["root"][name]
        assert rows["again"][name] == rows["fork"][name]
        assert rows["again"][f"own_{name}"] == 0
