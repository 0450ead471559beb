"""Server-sent events: resumed anywhere without gap or repeat, marked if they are ephemeral, bounded if nobody reads."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator

from starlette.types import Message

from windlass.runtime.streams.subscribers import BUFFER_MAX, Subscription
from windlass.server.access.limits import Limits
from windlass.server.event_stream import EventStream
from windlass.server.sse_connection import FrameStream

from .support import WAIT_S, Client, Stream, clerk, serving


async def replayed(client: Client, session: str, after: str | None, until: str) -> list[str]:
    """The cursors of the records behind one, up to another."""
    found: list[str] = []
    async with client.stream(session, after) as stream:
        while not found or found[-1] != until:
            found.append((await stream.record())["cursor"])
    return found


async def test_a_stream_cut_at_every_event_resumes_without_gap_or_repeat_also_after_a_restart(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.paid("a")
        cursors = [one["cursor"] for one in await admin.records("a")]
        assert len(cursors) > 15
        for cut in range(len(cursors)):
            after = cursors[cut - 1] if cut else None
            assert await replayed(admin, "a", after, cursors[-1]) == cursors[cut:]
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        for cut in (0, 1, len(cursors) // 2, len(cursors) - 1):
            after = cursors[cut - 1] if cut else None
            assert await replayed(admin, "a", after, cursors[-1]) == cursors[cut:]


async def test_a_client_that_is_cut_off_after_each_event_of_a_run_sees_each_once(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin = running.client()
        await admin.begin("a")
        seen: list[dict[str, object]] = []

        async def follow() -> None:
            while not seen or seen[-1]["event"]["type"] != "run.completed":  # type: ignore[index]
                async with admin.stream("a", str(seen[-1]["cursor"]) if seen else None) as stream:
                    seen.append(await stream.record())

        following = asyncio.ensure_future(follow())
        await admin.prompt("a")
        await following
        assert seen == (await admin.records("a"))[: len(seen)]


async def test_deltas_are_ephemeral_and_have_no_id_and_may_be_left_out(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a") as all_of_it, admin.stream("a", query="?live=false") as kept:
            await all_of_it.record()
            await kept.record()
            await admin.prompt("a")
            kinds, last = [], None
            while last != "run.completed":
                event = await all_of_it.next()
                assert event is not None
                kinds.append(event.kind)
                last = event.data["event"]["type"]
                if event.kind == "live":
                    assert event.id is None
                    assert event.data["ephemeral"] is True
            assert "live" in kinds
            await kept.until("run.completed")


async def test_every_client_is_told_of_a_request_and_a_late_one_gets_what_is_open(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a") as one, admin.stream("a") as two:
            await admin.prompt("a")
            told = [(await stream.until("permission.requested"))[-1] for stream in (one, two)]
            assert told[0] == told[1]
            asked = await admin.asked("a")
            async with admin.stream("a", told[0]["cursor"]) as late:
                first = await late.next()
                assert first is not None
                assert (first.id, first.kind, first.data["permissions"]) == (None, "requests", [asked])
                await admin.post(
                    f"/v1/sessions/a/requests/{asked['request_id']}",
                    {"decision": "approve", "digest": asked["digest"]},
                )
                for stream in (one, two, late):
                    await stream.until("permission.approved")
                    await stream.until("run.completed")


async def test_a_cursor_of_another_log_is_a_conflict_that_says_where_to_begin_again(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        await admin.begin("b")
        foreign = (await admin.get("/v1/sessions/b"))["cursor"]
        for headers, query in (({"Last-Event-ID": foreign}, ""), ({}, f"?after={foreign}")):
            said = await admin.ask("GET", f"/v1/sessions/a/events{query}", headers=headers)
            assert (said.status, said.json["code"], said.json["restart"]) == (409, "cursor_mismatch", "c1.0.")
        for nonsense in ("7", "c1.x.y", "c1.99.abc"):
            assert (await admin.ask("GET", f"/v1/sessions/a/events?after={nonsense}")).status == 400
        ahead = foreign.replace("c1.1.", "c1.99.")
        assert (await admin.ask("GET", f"/v1/sessions/a/events?after={ahead}")).status == 409


async def test_a_quiet_stream_shows_that_it_is_alive(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(heartbeat_s=0.05)) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.http.get(f"{admin.url}/v1/sessions/a/events", headers=admin.heads()) as answer:
            beats = 0
            while beats < 3:
                beats += (await answer.content.readline()) == b": alive\n"


async def test_a_reader_that_does_not_read_is_let_go_and_slows_nobody(tmp_path):
    limits = Limits(heartbeat_s=0.05, stall_s=0.2)
    async with serving(tmp_path, [clerk(ask=False)], limits=limits) as running:
        admin = running.client()
        await admin.begin("a")
        session = await (await running.server.tenants.runtime("default")).get("a")
        for letter in "abcdefghijklmnop":  # more than the buffers of a connection hold
            await session.set_title(letter * 400_000)
        host, port = running.server.url.removeprefix("http://").split(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((host, int(port)))
            head = f"GET /v1/sessions/a/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {admin.token}\r\n\r\n"
            deaf.sendall(head.encode())
            while not running.server.state.streams:
                await asyncio.sleep(0.01)
            async with admin.stream("a", await session.cursor()) as stream:
                await admin.prompt("a")
                await stream.until("run.completed")
            while running.server.state.streams:
                await asyncio.sleep(0.01)
            while running.server.connections > 1:  # its connection is cut off too, whatever it had not read
                await asyncio.sleep(0.01)


class Held:
    """A connection that takes nothing until it is let go, and then everything."""

    def __init__(self) -> None:
        self.blocked = asyncio.Event()
        self.free = asyncio.Event()
        self.seqs: list[int] = []
        self.more = asyncio.Event()

    async def send(self, message: Message) -> None:
        for line in message.get("body", b"").splitlines():
            if line.startswith(b"data: "):
                self.blocked.set()
                await self.free.wait()
                self.seqs.append(json.loads(line[6:])["seq"])
                self.more.set()

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def until(self, seq: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while not self.seqs or self.seqs[-1] != seq:
                self.more.clear()
                await self.more.wait()


async def test_a_reader_that_was_too_slow_for_what_is_at_hand_goes_on_with_the_log(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(heartbeat_s=3600)) as running:
        await running.client().begin("a")
        session = await (await running.server.tenants.runtime("default")).get("a")
        held = Held()
        token = running.server.tokens.tokens()[0]
        stream = FrameStream(running.server.state, token, EventStream(session, 0, live=False))
        following = asyncio.ensure_future(stream.run(held.receive, held.send, {}))
        await held.blocked.wait()
        for number in range(BUFFER_MAX // 2 + 100):  # each is two records
            await session.set_title(f"title {number}")
        count = (await session.state()).seq
        held.free.set()
        await held.until(count)
        assert held.seqs == list(range(1, count + 1))
        running.server.state.stopped.set()
        await following


class Kept:
    """What is told, in a generator that somebody else holds too, so that nothing but its stream ends it."""

    def __init__(self) -> None:
        self.ended = False
        self._told = self._frames()

    def hello(self) -> bytes:
        return b""

    def frames(self) -> AsyncIterator[bytes]:
        return self._told

    async def _frames(self) -> AsyncIterator[bytes]:
        try:
            yield b"data: {}\n\n"
        finally:
            self.ended = True


async def test_what_is_told_ends_with_its_stream_also_in_the_middle_of_sending(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(heartbeat_s=3600)) as running:
        held, kept = Held(), Kept()
        stream = FrameStream(running.server.state, running.server.tokens.tokens()[0], kept)
        following = asyncio.ensure_future(stream.run(held.receive, held.send, {}))
        await held.blocked.wait()
        running.server.state.stopped.set()
        await following
        assert kept.ended


async def test_streams_end_when_the_server_stops_and_so_many_may_be_open(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(streams_of_token=2)) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a") as one, admin.stream("a") as two:
            for stream in (one, two):
                await stream.record()
            third = await admin.ask("GET", "/v1/sessions/a/events")
            assert (third.status, third.json["code"]) == (429, "streams")
            running.server.stop()
            assert [await ended(stream) for stream in (one, two)] == [True, True]


async def ended(stream: Stream) -> bool:
    return await stream.next() is None


async def test_a_stream_ends_when_its_token_is_taken_away(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin, reader = running.client(), running.client("read", name="rae")
        await admin.begin("a")
        async with reader.stream("a", None) as stream:
            assert (await stream.record())["event"]["type"] == "session.started"
            running.server.tokens.revoke("rae")
            await admin.prompt("a")
            assert await stream.next() is None


async def test_a_stream_in_which_nothing_happens_is_ended_in_order_when_its_token_is_taken_away(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)], limits=Limits(heartbeat_s=0.05)) as running:
        admin, reader = running.client(), running.client("read", name="rae")
        await admin.begin("a")
        async with reader.stream("a", None) as stream:
            assert (await stream.record())["event"]["type"] == "session.started"
            running.server.tokens.revoke("rae")
            assert await stream.next() is None, "it is ended, and does not break off"


def readers() -> int:
    """How many there are in this process, whoever keeps them."""
    gc.collect()
    return sum(isinstance(one, Subscription) for one in gc.get_objects())


async def test_readers_that_come_and_go_at_a_session_at_rest_leave_nothing_behind(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a") as staying:  # whoever stays keeps what all of them share
            await staying.record()
            before = readers()
            for _ in range(20):
                async with admin.stream("a") as one:
                    await one.record()
            async with asyncio.timeout(WAIT_S):
                while sum(running.server.state.streams.values()) > 1:
                    await asyncio.sleep(0.01)
            assert readers() == before
