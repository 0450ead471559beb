"""Commands checked, sent and watched."""

from __future__ import annotations

import pytest

from windlass.events.commands import PromptBody, PromptReceived, QueueEdited
from windlass.events.errors import Refused, UsageError
from windlass.events.runs import CancelReceived, RunCompleted, WakeReceived
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied
from windlass.events.values.blocks import Text
from windlass.kernel.parts.asks import Ask
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.operate.command_delivery import check, deliver, send
from windlass.runtime.operate.log_point import read_point
from windlass.runtime.operate.open_requests import answers_under_way
from windlass.store.base import Store

from .support import ASKED, ASKING, DONE, paid, payer, sessions


async def test_a_command_is_kept_if_nobody_drives_the_session():
    async with sessions() as store:
        ask = next(iter((await read_point(store, ASKED)).state.asks.open.values()))
        command = PermissionApproved(command_id="a", actor="ada", request_id=ask.ask_id, digest=ask.digest)
        delivery = await deliver(store, ASKED, command, wait_s=0)
        waiting = [each.command_id for each in await store.inbox.waiting(ASKED)]
    assert (delivery.command_id, delivery.outcome, delivery.holder, delivery.events) == ("a", "kept", None, ())
    assert waiting == ["a"]


async def test_whoever_drives_the_session_takes_it_and_what_followed_is_told():
    async with sessions() as store:
        ask = next(iter((await read_point(store, ASKED)).state.asks.open.values()))
        command = PermissionApproved(command_id="a", actor="ada", request_id=ask.ask_id, digest=ask.digest)
        agent = payer(name="careful", policy=ASKING)
        async with Runtime(store, agents=[agent], poll_ms=5) as runtime:
            session = await runtime.session(agent, ASKED.session)
            delivery = await deliver(store, ASKED, command, wait_s=60)
            await session.wait_idle()
        after = await read_point(store, ASKED)
    assert delivery.outcome == "taken"
    assert any(isinstance(event, PermissionApproved) and event.command_id == "a" for event in delivery.events)
    assert any(isinstance(event, RunCompleted) for event in after.events.values())
    assert paid == [7, 7]


async def test_what_would_change_nothing_is_not_sent():
    async with sessions() as store:
        delivery = await deliver(store, DONE, WakeReceived(command_id="w", actor="ada"), wait_s=0)
        assert await store.inbox.waiting(DONE) == []
    assert (delivery.outcome, delivery.state) == ("needless", "idle")
    assert delivery.note


async def test_a_command_behind_others_is_sent_even_if_it_would_change_nothing_now():
    async with sessions() as store:
        more = PromptBody(content=(Text(text="And more."),))
        await deliver(store, DONE, PromptReceived(command_id="p", actor="ada", body=more), wait_s=0)
        delivery = await deliver(store, DONE, WakeReceived(command_id="w", actor="ada"), wait_s=0)
    assert delivery.outcome == "kept"


async def test_what_the_session_would_refuse_is_refused_before_it_is_sent():
    command = QueueEdited(command_id="q", actor="ada", order=("p999",))
    async with sessions() as store:
        before = await read_point(store, DONE)
        with pytest.raises(UsageError, match="session 'done' would refuse that now"):
            await deliver(store, DONE, command, wait_s=0)
        assert await store.inbox.waiting(DONE) == []
        assert (await check(store, DONE, WakeReceived(command_id="w", actor="ada"))).state == before.state


async def asked_id(store: Store) -> str:
    return (await asked_for(store)).ask_id


async def asked_for(store: Store) -> Ask:
    return next(iter((await read_point(store, ASKED)).state.asks.open.values()))


async def approval(store: Store, command_id: str, actor: str) -> PermissionApproved:
    ask = await asked_for(store)
    return PermissionApproved(command_id=command_id, actor=actor, request_id=ask.ask_id, digest=ask.digest)


async def test_the_second_of_two_answers_is_told_what_the_first_was_and_is_not_sent():
    async with sessions() as store:
        request = await asked_id(store)
        await deliver(store, ASKED, await approval(store, "a", "ada"), wait_s=0)
        for command in (
            PermissionDenied(command_id="b", actor="bob", request_id=request),
            await approval(store, "b", "bob"),
        ):
            with pytest.raises(UsageError) as caught:
                await deliver(store, ASKED, command, wait_s=0)
            assert str(caught.value) == (
                f"session 'asked' would refuse that now: permission {request} has an answer that waits in the inbox: "
                "ada approved it; the first counts"
            )
        assert [each.command_id for each in await store.inbox.waiting(ASKED)] == ["a"]
        assert await answers_under_way(store, await read_point(store, ASKED)) == {request: "ada approved it"}


async def test_an_answer_behind_a_cancel_is_told_of_it():
    async with sessions() as store:
        await deliver(store, ASKED, CancelReceived(command_id="c", actor="ada"), wait_s=0)
        with pytest.raises(
            UsageError, match=r"withdrawn.*once what waits in its inbox is taken: cancel.received by ada"
        ):
            await deliver(store, ASKED, await approval(store, "a", "bob"), wait_s=0)


async def test_an_answer_that_the_session_will_refuse_does_not_count_as_the_first():
    async with sessions() as store:
        request = await asked_id(store)
        wrong = PermissionApproved(command_id="w", actor="eve", request_id=request, digest="another")
        await send(store, ASKED, wrong, wait_s=0)
        assert await answers_under_way(store, await read_point(store, ASKED)) == {}
        denied = PermissionDenied(command_id="b", actor="bob", request_id=request)
        assert (await deliver(store, ASKED, denied, wait_s=0)).outcome == "kept"


async def test_of_two_answers_that_race_the_later_one_is_told_so():
    async with sessions() as store:
        request = await asked_id(store)
        first = await approval(store, "a", "ada")
        late = PermissionDenied(command_id="b", actor="bob", request_id=request)
        for command in (first, late):  # both have looked before either sends
            await check(store, ASKED, command)
        assert (await send(store, ASKED, first, wait_s=0)).outcome == "kept"
        with pytest.raises(Refused, match=r"it was sent, and the session will refuse it: .*: ada approved it"):
            await send(store, ASKED, late, wait_s=0)
