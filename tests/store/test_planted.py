"""The rigs find the bugs that they exist for: each planted one is caught by the kit, the model or the kill rig as they
are."""

from __future__ import annotations

import pathlib
import tempfile

import pytest

from tests.store.kill_oracle import check_after_kill
from tests.store.planted import open_planted
from tests.store.test_kills import WINDOW_US, fresh_seed, places
from windlass.store.base import Capabilities
from windlass.testing.kill_rig import KillRig
from windlass.testing.store_kit import StoreCase, applicable
from windlass.testing.store_kit.stateful import check_against_model

IN_MEMORY = Capabilities(durable=False, multi_process=False, transactional=True)
ON_DISK = Capabilities(durable=True, multi_process=True, transactional=True)
KILLS = 250
EXAMPLES = 2_000
"""How many sequences of calls the model may draw. It draws by chance: with 200, one search in eighty missed a bug."""


def case_of(name: str, capabilities: Capabilities, place: pathlib.Path) -> StoreCase:
    return StoreCase(lambda: open_planted(name, place), capabilities)


@pytest.mark.parametrize(
    ("name", "capabilities"),
    [("Unfenced", IN_MEMORY), ("Unordered", IN_MEMORY), ("Forgetful", IN_MEMORY), ("FencedBefore", ON_DISK)],
)
async def test_the_kit_finds_the_bug(name: str, capabilities: Capabilities, tmp_path: pathlib.Path):
    found = []
    for check in applicable(capabilities):
        place = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
        try:
            await check.run(case_of(name, capabilities, place))
        except Exception:
            found.append(check.name)
    print(f"{name} is found by {found}")
    assert found


@pytest.mark.parametrize("name", ["Unfenced", "Unordered", "Forgetful"])
def test_the_model_finds_the_bug(name: str, tmp_path: pathlib.Path):
    with pytest.raises(Exception) as caught:
        check_against_model(lambda: case_of(name, IN_MEMORY, tmp_path), examples=EXAMPLES, steps=30, shrink=False)
    print(f"{name} is found: {caught.value!r}"[:300])


@pytest.mark.parametrize("name", ["EagerSqlite", "EagerJsonl", "EagerInbox"])
def test_the_kill_rig_finds_the_bug(name: str, memory_path: pathlib.Path):
    with KillRig("tests.store.kill_targets:write", seed=fresh_seed()) as rig:
        with pytest.raises(AssertionError, match=f"seed {rig.seed}") as caught:
            rig.campaign(KILLS, WINDOW_US, places(memory_path, name), check_after_kill)
    print(f"{name} is found: {caught.value}"[:300])
