"""The sessions of one server, and the clients that sit at them. What a restart would lose is only who is connected."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Sequence
from typing import Any

from windlass.events.errors import NotFound, Refused
from windlass.events.sessions import NoticeGiven
from windlass.protocol.json_rpc.rpc_peer import RpcPeer
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session

from .client_hooks import ClientHooks
from .client_session import Seat
from .session_feed import SessionFeed


class CopilotHost:
    """What the clients of a server share."""

    def __init__(
        self, store: str, agents: Sequence[Agent], *, token: str | None = None, tenant: str = "default"
    ) -> None:
        self.place = store
        self.token = token
        """What a client must show to be heard; None if whoever reaches the server may talk to it."""
        self.feeds: dict[str, SessionFeed] = {}
        self.peers: set[RpcPeer] = set()
        self.client_hooks = ClientHooks(self.feeds.get)
        hooks = self.client_hooks.hooks()
        self.agents = {agent.name: dataclasses.replace(agent, hooks=(*agent.hooks, *hooks)) for agent in agents}
        self.runtime = Runtime(store, agents=list(self.agents.values()), tenant=tenant, take_up=False)
        self.stopping = asyncio.Event()
        self.forms: dict[str, asyncio.Future[Any]] = {}
        """Forms and commands that a client waits for, in a request of its own."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: dict[str, asyncio.Lock] = {}

    async def open(self) -> None:
        """Opens the store."""
        await self.runtime.start()

    async def close(self) -> None:
        """Lets everybody go and gives the sessions back."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for feed in list(self.feeds.values()):
            await feed.stop()
        self.feeds.clear()
        await self.runtime.close()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Does something that nobody waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell_all(self, what: str, session_id: str) -> None:
        """Tells every client that a session has come or gone."""
        for peer in self.peers:
            peer.notify("session.lifecycle", {"type": f"session.{what}", "sessionId": session_id})

    def opening(self, session_id: str) -> asyncio.Lock:
        """Held by whoever opens or leaves a session, so that a client that comes meets no half of it."""
        return self._opening.setdefault(session_id, asyncio.Lock())

    def put_form(self, name: str) -> asyncio.Future[Any]:
        """What somebody will answer, to be waited for."""
        waiting = self.forms[name] = asyncio.get_running_loop().create_future()
        return waiting

    # --- seats ---

    def feed(self, session: Session, known: int) -> SessionFeed:
        """The feed of a session; a new one tells what comes after the record `known`."""
        feed = self.feeds.get(session.session_id)
        if feed is None:
            feed = self.feeds[session.session_id] = SessionFeed(session, known)
            feed.start()
        return feed

    def seat(self, peer: RpcPeer, session_id: str) -> Seat | None:
        """Where a client sits at a session, if it does."""
        feed = self.feeds.get(session_id)
        return next((seat for seat in feed.all_seats if seat.peer is peer), None) if feed is not None else None

    async def leave(self, peer: RpcPeer, session_id: str) -> None:
        """A client leaves a session and takes its tools along. The last one lets the session go, unless it works."""
        async with self.opening(session_id):
            feed, seat = self.feeds.get(session_id), self.seat(peer, session_id)
            if feed is None or seat is None:
                return
            feed.stand_up(seat)
            await self.unmount(feed, seat.tools)
            if not feed.all_seats:
                del self.feeds[session_id]
                await feed.stop()
                await self._let_go(feed.session)

    async def unmount(self, feed: SessionFeed, names: set[str]) -> None:
        """Takes tools away that no client runs any more; those with a call under way stay, for whoever resumes it."""
        kept = {name for seat in feed.all_seats for name in seat.tools}
        state = await feed.session.state()
        gone = tuple(sorted(name for name in names - kept if name in state.toolset.tools))
        waited_for = {call.tool for call in state.open_calls()}
        if gone and not waited_for & set(gone):
            try:
                await feed.session.unmount(*gone)
            except Refused:
                return  # somebody else has taken them away

    async def _let_go(self, session: Session) -> None:
        if not (await session.state()).active:
            await session.close("the last client has left")

    async def leave_all(self, peer: RpcPeer) -> None:
        """A client is gone."""
        self.peers.discard(peer)
        for session_id, feed in list(self.feeds.items()):
            if any(seat.peer is peer for seat in feed.all_seats):
                await self.leave(peer, session_id)

    # --- sessions ---

    async def session(self, session_id: str) -> Session:
        """A session that exists. Raises `NotFound`."""
        feed = self.feeds.get(session_id)
        return feed.session if feed is not None else await self.runtime.get(session_id)

    async def notice(self, session: Session, notice: NoticeGiven) -> None:
        """Puts something on record that changes nothing. What another process drives is left to it."""
        driven = await self.runtime.host.opener.ensure_driven(session.key)
        if driven is None:
            raise NotFound(f"session {session.session_id!r} is open in another process")
        await driven.owner.take(notice)
