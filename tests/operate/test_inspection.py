"""What the model sees at a point of a session."""

from __future__ import annotations

from windlass.runtime.operate.inspection import inspect
from windlass.runtime.operate.log_point import read_point

from .support import DONE, sessions


async def test_everything_that_a_request_would_carry_is_there():
    async with sessions() as store:
        seen = inspect(await read_point(store, DONE))
    assert (seen.session, seen.instructions, seen.tools) == ("done", "Pay what is due.", ["pay: Pay."])
    assert len(seen.items) == 4
    assert list(seen.tokens) == ["instructions", "tools", "knowledge", "history", "task state"]
    assert seen.tokens["history"] > seen.tokens["instructions"] > 0
    assert 0 < sum(seen.tokens.values()) < seen.window_tokens


async def test_an_earlier_point_has_an_earlier_history():
    async with sessions() as store:
        seen = inspect(await read_point(store, DONE, until=1))
    assert (seen.at, seen.items, seen.task_state) == (1, [], "")
