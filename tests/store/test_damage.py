"""A damaged JSON-lines log is found, bounded and never made worse: a torn tail is cut and kept aside, damage before it
makes the session read-only and names the place."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import shutil
from bisect import bisect_right

import pytest

from tests.store.faults import PointDisk
from windlass.events.errors import Damaged
from windlass.events.stored.record import Sealed
from windlass.store.base import Claim, InboxCommand, Key
from windlass.store.chain import verify_chain
from windlass.store.jsonl.store import JsonlStore
from windlass.testing.store_kit import Writer
from windlass.testing.store_kit.case import lines_of, raises

KEY = Key("default", "s1")
EVENTS = 200


SHARES = 6
"""Into how many tests the cuts at each byte are dealt out, so that several processes can run them."""


class Specimen:
    """A store with one session of 200 events, to be damaged again and again."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.session = root / "tenants" / "default" / "sessions" / "s1"
        self.log = self.session / "log.jsonl"
        self.lines: list[Sealed] = []
        self.whole = b""
        self.ends: list[int] = []

    async def grow(self) -> Specimen:
        store = await JsonlStore.open(self.root, durability="normal")
        writer = await Writer(store, KEY).claim()
        while writer.seq < EVENTS:
            number = writer.seq
            row = writer.row(updated_ms=number) if number % 7 == 0 else None
            takes = [f"c{number}"] if number % 5 == 0 else []
            await writer.append(events=1 + number % 4 if number < EVENTS - 4 else 1, takes=takes, index=row)
        await store.close()
        self.lines = writer.lines
        self.whole = self.log.read_bytes()
        self.ends = [i + 1 for i, byte in enumerate(self.whole) if byte == 10]
        assert len(self.ends) == len(self.lines)
        return self

    def damage(self, data: bytes) -> None:
        """Puts these bytes in the place of the log, with nothing left of earlier repairs."""
        shutil.rmtree(self.session / "torn", ignore_errors=True)
        for name in ("index.json", "lease.json"):  # these know how long the log was
            (self.session / name).unlink(missing_ok=True)
        part = self.log.with_suffix(".new")
        part.write_bytes(data)
        part.replace(self.log)

    def torn(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.session / "torn").glob("*.bin"))]


def specimen(memory_path: pathlib.Path) -> Specimen:
    return asyncio.run(Specimen(memory_path / "s.jsonl.d").grow())


async def opened(subject: Specimen) -> tuple[list[Sealed], Claim | Damaged]:
    """What can be read, and how a claim is answered."""
    store = await JsonlStore.open(subject.root, durability="normal")
    try:
        return await looked_at(store)
    finally:
        await store.close()


async def looked_at(store: JsonlStore) -> tuple[list[Sealed], Claim | Damaged]:
    lines: list[Sealed] = []
    damage: Damaged | None = None
    try:
        async for sealed in store.log.read(KEY):
            lines.append(sealed)
    except Damaged as error:
        damage = error
    if damage is None:
        return lines, await store.leases.claim(KEY, runner="r", ttl_ms=0, now_ms=10**15)
    refusal = await raises(Damaged, store.leases.claim(KEY, runner="r", ttl_ms=0, now_ms=10**15))
    assert (str(refusal), refusal.seq, refusal.offset) == (str(damage), damage.seq, damage.offset)
    head = await store.log.head(KEY)
    assert head is not None
    assert head.damage == str(damage)
    return lines, damage


@pytest.mark.parametrize("first", range(SHARES))
def test_a_log_cut_at_any_byte_keeps_its_whole_part(memory_path: pathlib.Path, first: int):
    subject = specimen(memory_path)
    asyncio.run(_cut_everywhere(subject, range(first, len(subject.whole) + 1, SHARES)))


async def _cut_everywhere(subject: Specimen, cuts: range) -> None:
    store = await JsonlStore.open(subject.root, durability="normal")
    for cut in cuts:
        subject.damage(subject.whole[:cut])
        # A record that only lost its line break is whole.
        whole = bisect_right(subject.ends, cut + 1)
        lines, claim = await looked_at(store)
        assert lines == subject.lines[:whole], cut
        assert isinstance(claim, Claim), cut
        start = subject.ends[whole - 1] if whole else 0
        tail = subject.whole[start:cut]
        assert subject.torn() == ([tail] if tail else []), cut
        assert subject.log.read_bytes() == subject.whole[: min(start, cut)], cut
        assert [(item.size, item.offset) for item in claim.recovered] == ([(len(tail), start)] if tail else []), cut
    await store.close()


def test_what_was_cut_is_told_until_an_append_is_kept(memory_path: pathlib.Path):
    asyncio.run(_told(specimen(memory_path)))


async def _told(subject: Specimen) -> None:
    subject.damage(subject.whole[:-10])
    store = await JsonlStore.open(subject.root)
    first = await store.leases.claim(KEY, runner="a", ttl_ms=0, now_ms=10**14)
    await store.close()
    store = await JsonlStore.open(subject.root)
    writer = await Writer(store, KEY).claim(now_ms=10**14, create=False)
    second = await store.leases.claim(KEY, runner="runner-1", ttl_ms=0, now_ms=10**14, renew=True)
    assert first.recovered == second.recovered
    (notice,) = second.recovered
    assert notice.seq == subject.lines[-2].last_seq
    assert notice.path.startswith(str(subject.session / "torn"))
    assert (notice.offset, notice.size) == (subject.ends[-2], len(subject.torn()[0]))
    await writer.append()
    third = await store.leases.claim(KEY, runner="runner-1", ttl_ms=0, now_ms=10**14, renew=True)
    assert third.recovered == ()
    await verify_chain(store, KEY)
    await store.close()
    store = await JsonlStore.open(subject.root)
    fourth = await store.leases.claim(KEY, runner="b", ttl_ms=0, now_ms=10**15)
    assert fourth.recovered == ()
    await store.close()


def test_a_record_without_its_line_break_is_kept_and_continued(memory_path: pathlib.Path):
    asyncio.run(_continued(specimen(memory_path)))


async def _continued(subject: Specimen) -> None:
    subject.damage(subject.whole[:-1])
    store = await JsonlStore.open(subject.root)
    writer = await Writer(store, KEY).claim(now_ms=10**14, create=False)
    await writer.append()
    await writer.append()
    assert await lines_of(store, KEY) == subject.lines + writer.lines
    await store.close()
    lines, _ = await opened(subject)
    assert lines == subject.lines + writer.lines


def test_one_flipped_bit_is_never_taken_for_the_log(memory_path: pathlib.Path):
    asyncio.run(_flip(specimen(memory_path)))


async def _flip(subject: Specimen) -> None:
    last_start = subject.ends[-2]
    for place in range(0, len(subject.whole), 97):
        for bit in (0, 5):
            data = bytearray(subject.whole)
            data[place] ^= 1 << bit
            subject.damage(bytes(data))
            lines, answer = await opened(subject)
            assert lines == subject.lines[: len(lines)], place
            if place < last_start:
                assert isinstance(answer, Damaged), place
                hit = sum(end <= place for end in subject.ends)
                # Where only the line break was hit, the record before it is whole.
                assert len(lines) == hit or (place + 1 in subject.ends and len(lines) == hit + 1), place
                assert answer.seq == (lines[-1].last_seq if lines else 0) + 1
                assert answer.offset is not None
                assert answer.offset <= place
                assert subject.log.read_bytes() == bytes(data), "a damaged log must not be changed"
            else:
                assert isinstance(answer, Claim), place
                assert len(lines) == len(subject.lines) - 1
                assert subject.torn() == [bytes(data[last_start:])]


def test_other_damage_is_named_or_cut(memory_path: pathlib.Path):
    asyncio.run(_other(specimen(memory_path)))


async def _other(subject: Specimen) -> None:
    whole, ends = subject.whole, subject.ends
    page = (len(whole) // 2) & ~4095
    middle = len(ends) // 2
    second_of_two = whole[ends[middle] : ends[middle + 1]]
    for name, data, kept, is_cut in (
        ("a page of zeros in the middle", whole[:page] + bytes(4096) + whole[page + 4096 :], None, False),
        ("a page of zeros at the end", whole + bytes(4096), len(ends), True),
        ("garbage at the end", whole + os.urandom(100) + b"\n", len(ends), True),
        ("a line of text at the end", whole + b"not a record\n", len(ends), True),
        ("a beginning of a record at the end", whole + whole[ends[3] : ends[4] - 20], len(ends), True),
        ("two records fused", whole[: ends[middle] - 1] + second_of_two + whole[ends[middle + 1] :], None, False),
        ("two records fused in the middle of one", whole[: ends[middle] - 30] + whole[ends[middle] :], middle, False),
        ("a record left out", whole[: ends[middle]] + whole[ends[middle + 1] :], middle + 1, False),
        ("a record twice", whole[: ends[middle]] + whole[ends[middle - 1] :], middle + 1, False),
        ("the last record twice", whole + whole[ends[-2] :], len(ends), False),
        ("two records swapped", whole[: ends[5]] + whole[ends[6] : ends[7]] + whole[ends[5] : ends[6]], 6, False),
        ("no log at all", b"", 0, None),
        ("garbage only", b"\xff" * 5_000, 0, True),
    ):
        subject.damage(data)
        lines, answer = await opened(subject)
        assert lines == subject.lines[: len(lines)], name
        assert kept is None or len(lines) == kept, name
        assert isinstance(answer, Claim if is_cut is not False else Damaged), name
        if is_cut is False:
            assert subject.log.read_bytes() == data, name
        else:
            assert b"".join(subject.torn()) == data[ends[kept - 1] if kept else 0 :], name


async def test_a_torn_inbox_loses_only_what_was_never_acknowledged(tmp_path: pathlib.Path):
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    writer = await Writer(store, KEY).claim()
    for i in range(5):
        await store.inbox.send(KEY, InboxCommand(command_id=f"c{i}", at_ms=i, data=b"%d" % i))
    await store.close()
    inbox = tmp_path / "s.jsonl.d" / "tenants" / "default" / "sessions" / "s1" / "inbox.jsonl"
    whole = inbox.read_bytes()
    inbox.write_bytes(whole + whole[:20])
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    assert len(await store.inbox.waiting(KEY)) == 5
    await store.inbox.send(KEY, InboxCommand(command_id="c5", at_ms=5, data=b"5"))
    assert [c.command_id for c in await store.inbox.waiting(KEY)] == [f"c{i}" for i in range(6)]
    await store.close()
    inbox.write_bytes(whole[:30] + b"\x00" + whole[31:])
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    await raises(Damaged, store.inbox.send(KEY, InboxCommand(command_id="c6", at_ms=5, data=b"5")))
    assert await lines_of(store, KEY) == writer.lines
    await store.close()


async def test_an_emptied_inbox_file_begins_anew(tmp_path: pathlib.Path):
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    writer = await Writer(store, KEY).claim()
    await store.inbox.send(KEY, InboxCommand(command_id="large", at_ms=0, data=b"x" * 300_000))
    await writer.append(takes=["large"])
    await store.inbox.send(KEY, InboxCommand(command_id="next", at_ms=0, data=b"y"))
    inbox = tmp_path / "s.jsonl.d" / "tenants" / "default" / "sessions" / "s1" / "inbox.jsonl"
    assert inbox.stat().st_size < 1_000
    other = await JsonlStore.open(tmp_path / "s.jsonl.d")
    for handle in (store, other):
        assert [c.command_id for c in await handle.inbox.waiting(KEY)] == ["next"]
        assert (await handle.inbox.send(KEY, InboxCommand(command_id="large", at_ms=0, data=b""))).taken is True
    await other.close()
    await store.close()


async def test_a_log_can_be_read_with_plain_tools(tmp_path: pathlib.Path):
    store = await JsonlStore.open(tmp_path / "s.jsonl.d")
    writer = await Writer(store, KEY).claim()
    await writer.append(b'{"said":"find me"}')
    await writer.append()
    await store.close()
    text = (tmp_path / "s.jsonl.d" / "tenants" / "default" / "sessions" / "s1" / "log.jsonl").read_text()
    assert [json.loads(line)["seq"] for line in text.splitlines()] == [1, 2]
    assert '"said":"find me"' in text


def test_points_of_the_disk_split_every_write(memory_path: pathlib.Path):
    """The crash sweep would prove little if a write could not be torn by it."""
    points: list[None] = []
    disk = PointDisk(lambda: points.append(None))
    disk.put(memory_path / "x", b"abcd", sync=True)
    assert len(points) == 4  # before the write, within it, before the sync, before the rename
    assert (memory_path / "x").read_bytes() == b"abcd"
