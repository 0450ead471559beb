"""Whether logs are what was written."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import subprocess
import sys

import msgspec
import pytest

import windlass
from windlass.cli.verbs.setup.doctor import trouble_of
from windlass.events.errors import StoreError
from windlass.events.values.policy import Grant
from windlass.kernel import log
from windlass.runtime.operate.anchors import Anchor, judged
from windlass.runtime.operate.verification import Verdict, verify_session, verify_store
from windlass.store import open_store
from windlass.store.base import Key, Query
from windlass.store.jsonl.disk import Disk
from windlass.testing.scripted import call

from .support import ASKED, DONE, payer, sessions

MANY = 200


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


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES])
async def test_a_session_that_the_system_does_not_let_be_read_is_not_called_damaged(tmp_path, monkeypatch, number):
    place = tmp_path / "work.jsonl.d"
    agent = payer("Done.", "Done.")
    async with windlass.open(str(place), agents=[agent]) as rt:
        for name in ("one", "two"):
            session = await rt.session(agent, name)
            await session.prompt("go")
            await session.result()
    opens = Disk.open_file

    def open_file(disk: Disk, path: pathlib.Path) -> int:
        if path.parent.name == "two":
            raise OSError(number, os.strerror(number), str(path))
        return opens(disk, path)

    monkeypatch.setattr(Disk, "open_file", open_file)
    store = await open_store(str(place))
    verdicts = {verdict.session: verdict async for verdict in verify_store(store, "default")}
    doctor_says = await trouble_of(store, Key("default", "two"))
    anchor = Anchor(tenant="default", session="two", seq=1, hash="x", at_ms=0)
    judgements = await judged(store, verdicts.values(), [anchor])
    await store.close()
    assert verdicts["one"].sound
    assert not verdicts["two"].sound
    assert verdicts["two"].unread
    (problem,) = verdicts["two"].problems
    assert problem.startswith("could not be read: ")
    assert os.strerror(number) in problem
    assert doctor_says == problem
    assert judgements == list(verdicts.values())


async def test_a_listing_that_the_system_has_no_files_left_for_fails_and_calls_nothing_damaged(tmp_path, monkeypatch):
    place = tmp_path / "work.jsonl.d"
    agent = payer("Done.")
    async with windlass.open(str(place), agents=[agent]) as rt:
        await rt.session(agent, "one")
    read_bytes = pathlib.Path.read_bytes

    def without_descriptors(path: pathlib.Path) -> bytes:
        if path.name == "session.json":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return read_bytes(path)

    store = await open_store(str(place))
    monkeypatch.setattr(pathlib.Path, "read_bytes", without_descriptors)
    with pytest.raises(StoreError, match="Too many open files"):
        await store.index.find(Query())
    monkeypatch.undo()
    assert [row.state for row in await store.index.find(Query())] == ["idle"]
    await store.close()


def test_a_store_of_more_sessions_than_a_process_may_have_files_is_read(tmp_path):
    """256 files are what some systems give a process."""
    place = str(tmp_path / "work.jsonl.d")

    async def fill() -> None:
        store = await open_store(place)
        for number in range(MANY):
            await store.log.create(Key("default", f"s{number}"))
        await store.close()

    asyncio.run(fill())
    script = (
        "import asyncio, resource\n"
        "from windlass.store import open_store\n"
        "from windlass.store.base import Key\n"
        "async def main():\n"
        f"    store = await open_store({place!r})\n"
        f"    heads = [await store.log.head(Key('default', f's{{n}}')) for n in range({MANY})]\n"
        "    print(len(heads))\n"
        "    await store.close()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ran.stdout, ran.stderr) == (f"{MANY}\n", "")
