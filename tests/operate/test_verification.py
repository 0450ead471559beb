"""Whether logs are what was written."""

from __future__ import annotations

import msgspec
import pytest

import windlass
from windlass.events.values.policy import Grant
from windlass.kernel import log
from windlass.runtime.operate.verification import Verdict, verify_session, verify_store
from windlass.store import open_store
from windlass.store.base import Key
from windlass.testing.scripted import call

from .support import ASKED, DONE, payer, sessions


async def test_whole_logs_are_sound():
    async with sessions() as store:
        heads = {key.session: await store.log.head(key) for key in (DONE, ASKED)}
        verdicts = [verdict async for verdict in verify_store(store, "default")]
    assert {verdict.session for verdict in verdicts} == {"done", "asked"}
    for verdict in verdicts:
        head = heads[verdict.session]
        assert head is not None
        assert verdict == Verdict(session=verdict.session, records=head.seq, hash=head.hash)


async def test_a_session_that_cannot_be_read_is_a_verdict_and_no_error():
    async with sessions() as store:
        verdict = await verify_session(store, Key("default", "nobody"))
    assert not verdict.sound
    assert len(verdict.problems) == 1


@pytest.mark.parametrize("place", ["work.db", "work.jsonl.d"])
async def test_a_snapshot_that_says_what_the_log_does_not_is_damage(tmp_path, place):
    agent = payer([call("pay", cents=7)], "Done: 7.", [call("pay", cents=8)], policy=windlass.Policy(default="ask"))
    store = await open_store(str(tmp_path / place))
    async with windlass.open(store, agents=[agent], snapshot_every=1) as rt:
        session = await rt.session(agent, "s", metadata={"a": "b"})
        await session.prompt("go")
        await session.result()
        (request,) = await session.requests()
        await session.approve(request)
        await session.result()
    assert (await verify_session(store, session.key)).sound
    snapshot = await store.log.get_snapshot(session.key)
    assert snapshot is not None
    state = log.load(snapshot.data)
    state.gate.grants["forged"] = Grant(grant_id="forged", tool="pay")
    await store.log.put_snapshot(session.key, msgspec.structs.replace(snapshot, data=log.dump(state)))
    verdict = await verify_session(store, session.key)
    assert not verdict.sound
    assert verdict.problems == (f"the snapshot at record {snapshot.seq} is not what the log adds up to",)
    await store.close()
