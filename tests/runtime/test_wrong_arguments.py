"""What is given to the handles and makes no sense is refused by name, before anything happens."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.testing.scripted import ScriptedModel


async def test_a_session_is_named_by_a_text_and_approved_by_a_request():
    agent = windlass.Agent("a", model=ScriptedModel(["One."]))
    number: Any = 5
    async with windlass.open(agents=[agent]) as runtime:
        with pytest.raises(windlass.UsageError, match="the id of a session is a text, not int: 5"):
            await runtime.session(agent, number)
        with pytest.raises(windlass.UsageError, match="is a text, not int"):
            await runtime.get(number)
        session = await runtime.session(agent, "s")
        with pytest.raises(windlass.UsageError, match="an approval says what it approves"):
            await session.approve(number, digest="x")


async def test_a_fork_begins_at_a_record_that_is_there():
    agent = windlass.Agent("a", model=ScriptedModel(["One."]))
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("Hello.")
        await session.result()
        with pytest.raises(windlass.UsageError, match="session 's' has no record 1000: its last one is "):
            await session.fork("later", at_seq=1000)
