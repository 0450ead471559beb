"""What a message comes to, by the events that clients are told."""

from __future__ import annotations

import pytest

from windlass.adapters.copilot.completion import Completion
from windlass.protocol.json_rpc.rpc_peer import RpcError

MINE, OTHER = "m1", "m2"


def event(kind: str, number: int, **data: object) -> dict[str, object]:
    return {"id": f"e{number}", "type": kind, "data": data}


async def test_the_last_answer_to_a_message_is_its_own_and_comes_with_the_end_of_its_run():
    completion = Completion(MINE)
    told = [
        event("assistant.message", 1, originatingMessageId=OTHER, content="not mine"),
        event("session.idle", 2),  # of the run before
        event("user.message", 3, messageId=MINE),
        event("assistant.message", 4, originatingMessageId=MINE, content="first"),
        event("assistant.message", 5, originatingMessageId=MINE, content="last"),
        event("session.error", 6, originatingMessageId=OTHER, message="not mine"),
        event("session.idle", 7),
        event("assistant.message", 8, originatingMessageId=MINE, content="too late"),
    ]
    for one in told[:6]:
        completion.hear(one)
        assert not completion.ended.done()
    for one in told[6:]:
        completion.hear(one)
    assert await completion.ended == {"response": told[4], "aborted": False, "completionEventId": "e7"}


async def test_a_run_that_failed_or_was_left_is_an_error():
    failed, left = Completion(MINE), Completion(MINE)
    failed.hear(event("user.message", 1, messageId=MINE))
    failed.hear(event("session.error", 2, message="the provider says no"))
    with pytest.raises(RpcError, match="Session error: the provider says no"):
        await failed.ended
    left.give_up()
    with pytest.raises(RpcError, match="the session was left"):
        await left.ended


async def test_a_run_that_was_stopped_says_so():
    completion = Completion(MINE)
    completion.hear(event("user.message", 1, messageId=MINE))
    completion.hear(event("session.idle", 2, aborted=True))
    assert await completion.ended == {"response": None, "aborted": True, "completionEventId": "e2"}
