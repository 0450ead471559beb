"""Who writes alone is not made to wait for a group; who writes with others shares a commit; nobody keeps the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from windlass.events.errors import WindlassError
from windlass.store.group_commit import AT_ONCE_MAX, GroupWriter, Job


class Commits:
    """A committer that notes which jobs shared a commit."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.synced = 0
        self.sync_apart: Callable[[], WindlassError | None] | None = self.sync

    def sync(self) -> None:
        self.synced += 1

    def commit(self, jobs: list[Job[list[int]]], *, wait: bool) -> bool:
        done: list[int] = []
        for job in jobs:
            job.result = job.work(done, *job.args)
        self.groups.append(done)
        return True

    def rest_is_due(self) -> bool:
        return False

    def rest(self) -> None: ...

    def end(self) -> None: ...


@asynccontextmanager
async def opened(*, inline: bool = True) -> AsyncIterator[tuple[GroupWriter[list[int]], Commits]]:
    commits = Commits()
    writer = GroupWriter(commits, inline=inline)
    try:
        yield writer, commits
    finally:
        await writer.close()


def test_who_writes_alone_is_committed_at_once():
    async def main() -> None:
        async with opened() as (writer, commits):
            first = writer.submit(list.append, 0)
            assert not first.done()  # others may come in this pass
            await first
            for number in range(1, AT_ONCE_MAX + 1):
                assert writer.submit(list.append, number).done()
            assert commits.groups == [[number] for number in range(AT_ONCE_MAX + 1)]

    asyncio.run(main())


def test_those_who_write_in_one_pass_share_a_commit_again_and_again():
    async def main() -> None:
        async with opened() as (writer, commits):
            await writer.submit(list.append, 0)

            async def write(number: int) -> None:
                for _ in range(20):
                    await writer.submit(list.append, number)

            await asyncio.gather(*(write(number) for number in range(10)))
            # One of them may have gone ahead at first; from then on they are committed together.
            assert len(commits.groups) <= 1 + AT_ONCE_MAX + 20 + 1
            assert sorted(number for group in commits.groups for number in group)[1:] == sorted([*range(10)] * 20)

    asyncio.run(main())


def test_who_writes_without_end_lets_others_run():
    async def main() -> None:
        async with opened() as (writer, _):
            passes = 0

            async def watch() -> None:
                nonlocal passes
                while True:
                    passes += 1
                    await asyncio.sleep(0)

            watching = asyncio.create_task(watch())
            for number in range(20 * (AT_ONCE_MAX + 1)):
                await writer.submit(list.append, number)
            watching.cancel()
            assert passes >= 20

    asyncio.run(main())


def test_what_is_to_be_synced_is_acknowledged_after_the_sync_alone():
    async def main() -> None:
        async with opened() as (writer, commits):
            await writer.submit(list.append, 0)
            kept = writer.submit(list.append, 1, barrier=True)
            assert commits.groups == [[0], [1]]
            assert not kept.done()
            await kept
            assert commits.synced == 1

    asyncio.run(main())


def test_nobody_overtakes_what_the_thread_has_to_do():
    async def main() -> None:
        async with opened() as (writer, commits):
            await writer.submit(list.append, 0)
            heavy = writer.submit(list.append, 1, heavy=True)
            light = writer.submit(list.append, 2)
            await asyncio.gather(heavy, light)
            assert [number for group in commits.groups for number in group] == [0, 1, 2]

    asyncio.run(main())
