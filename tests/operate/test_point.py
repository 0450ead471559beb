"""A session at any of its records."""

from __future__ import annotations

import pytest

from windlass.events.commands import PromptReceived
from windlass.events.errors import NotFound
from windlass.events.turns import ModelReplied
from windlass.kernel import log
from windlass.runtime.operate.item_text import item_text
from windlass.runtime.operate.log_point import read_point
from windlass.store.chain import history

from .support import ASKED, DONE, sessions


async def test_the_end_of_a_log_is_the_state_that_the_kernel_folds():
    async with sessions() as store:
        point = await read_point(store, DONE)
        folded = log.fold_lines([sealed.data async for sealed in history(store, DONE)])
    assert log.state_hash(point.state) == log.state_hash(folded)
    assert [item_text(item) for item in point.items()] == ["Pay it.", "→ pay(cents=7)", "paid 7", "Done: 7."]


async def test_a_point_stands_behind_any_record_also_within_an_append():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        points = [await read_point(store, DONE, until=seq) for seq in range(1, whole.seq + 1)]
    assert [point.seq for point in points] == list(range(1, whole.seq + 1))
    assert points[-1].state == whole.state
    replied = next(seq for seq, event in whole.events.items() if isinstance(event, ModelReplied))
    assert [item_text(item) for item in points[replied - 2].items()] == ["Pay it."]


async def test_a_record_behind_the_end_leaves_the_point_at_the_end():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        assert (await read_point(store, DONE, until=whole.seq + 10)).seq == whole.seq
    with pytest.raises(NotFound, match="session 'done' has no event 9999"):
        whole.event(9999)
    prompt = next(seq for seq, event in whole.events.items() if isinstance(event, PromptReceived))
    assert whole.event(prompt) is whole.events[prompt]


async def test_what_a_session_waits_for_is_in_its_overview():
    async with sessions() as store:
        assert (await read_point(store, DONE)).overview.state == "idle"
        asked = (await read_point(store, ASKED)).overview
    assert asked.state == "asked"
    assert [name[:1] for name in asked.waiting_for] == ["p"]


async def test_a_reply_with_open_calls_cannot_be_brought_back():
    async with sessions() as store:
        asked, done = await read_point(store, ASKED), await read_point(store, DONE)
    assert len(asked.restorable()) == len(asked.state.history.items) - 1
    assert len(done.restorable()) == len(done.state.history.items)
