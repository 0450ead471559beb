"""A session that cannot be read hides no other one from the verbs that list them."""

from __future__ import annotations

import asyncio
import json
import pathlib
import random
import shutil

import pytest

import windlass
from tests.store.faults import harm_at_random
from windlass.cli.main import main
from windlass.cli.verbs.setup.doctor import of_sessions
from windlass.store.jsonl.store import JsonlStore
from windlass.testing import ScriptedModel, call


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


CLERK = windlass.Agent(
    "clerk",
    model=ScriptedModel(lambda _: call("pay", cents=1)),
    tools=[pay],
    policy=windlass.Policy(default="ask"),
)


async def asked_and_answered(root: pathlib.Path) -> pathlib.Path:
    """A store with two sessions that wait for a person, of which one has its answer in the inbox. Gives the folder that
    this one has in a store of plain files."""
    async with windlass.open(root, agents=[CLERK]) as runtime:
        for name in ("broken", "whole"):
            session = await runtime.session(CLERK, name)
            await session.prompt("Go.")
            assert (await session.result()).status == "asked"
    async with windlass.open(root, take_up=False) as runtime:
        session = await runtime.get("broken")
        await session.approve((await session.requests())[0])
    return root / "tenants" / "default" / "sessions" / "broken"


def flip(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x41
    path.write_bytes(data)


def in_its_place_a_folder(path: pathlib.Path) -> None:
    """As good as a file that may not be read, or lies on a bad sector: the system refuses."""
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", ["session.json", "log.jsonl"])
@pytest.mark.parametrize("harm", [flip, in_its_place_a_folder])
async def test_one_session_that_cannot_be_read_hides_no_other(tmp_path, name, harm):
    root = tmp_path / "w.jsonl.d"
    folder = await asked_and_answered(root)
    harm(folder / name)
    store = await JsonlStore.open(root)
    try:
        findings = await of_sessions(store, str(root), "default")
        told = await _listed(store)
    finally:
        await store.close()
    assert "whole" in told
    assert [about for status, about, said in findings if status == "wrong" and "broken" in said] == ["session"]


async def _listed(store) -> list[str]:
    from windlass.runtime.operate.lease_holder import holders_of
    from windlass.runtime.operate.open_requests import answers_of_rows
    from windlass.store.base import Query

    rows = await store.index.find(Query(tenant="default"))
    await holders_of(store, rows)
    await answers_of_rows(store, rows)
    return [row.session for row in rows]


def test_ps_tells_of_the_others(tmp_path, capsys):
    root = tmp_path / "w.jsonl.d"
    in_its_place_a_folder(asyncio.run(asked_and_answered(root)) / "session.json")
    assert main(["ps", "--store", str(root), "--json"]) == 0
    states = {row["session"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states == {"whole": "asked", "broken": "damaged"}


@pytest.mark.parametrize("store", ["work.db", "work.jsonl.d"])
def test_whatever_bytes_a_store_has_it_is_verified_and_examined_to_the_end(store, tmp_path, capsys):
    (tmp_path / "whole").mkdir()
    asyncio.run(asked_and_answered(tmp_path / "whole" / store))
    found: set[int] = set()
    for seed in range(25):
        copy = tmp_path / str(seed)
        shutil.copytree(tmp_path / "whole", copy)
        harm_at_random(copy, random.Random(seed))
        for verb in ("verify", "doctor"):
            found.add(main([verb, "--store", str(copy / store)]))  # it raises what it has no words for
            told = capsys.readouterr()
            assert told.out or told.err, (seed, verb)
            if store == "work.jsonl.d" and "windlass.json' is damaged" not in told.err and verb == "verify":
                assert "whole" in told.out, seed
                assert "broken" in told.out, seed
    assert found == {0, 1}
