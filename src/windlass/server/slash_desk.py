"""Slash commands that clients bring along while they follow a session: whoever names one has a client run it.

They live as long as the stream of the client that brought them. Nothing of them is kept: the log gets the prompt that
one of them makes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import msgspec

from windlass.server.problems import Problem
from windlass.store.base import Key

OPEN_MAX = 32
"""How many may wait for an answer in one tenant. Fewer than the requests that one pipe has answered at a time, so that
an answer always comes through."""
NOTICES_MAX = 256
"""How much a client may leave unread; then its stream ends, and with the next one it is told what is open."""
CLOSED_MAX = 256
"""Of how many that are over it is known how they ended."""


class SlashCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that a client runs: its name without the slash, and what it is for."""

    name: str
    description: str = ""


class SlashNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What clients are told of a command that somebody named."""

    request_id: str
    status: Literal["open", "answered", "withdrawn"]
    name: str
    args: str
    by: str
    """Whose token prompted it; whose token answered it; who prompted it, if nobody waits for it any more."""


class SlashAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a command: the text that goes on as the prompt, or that it is handled and nothing goes on."""

    text: str | None = None
    handled: bool = False


class SlashClient:
    """A stream whose client brought commands."""

    def __init__(self, commands: Sequence[SlashCommand]) -> None:
        self.commands = {command.name: command for command in commands}
        self._notices: asyncio.Queue[SlashNotice | None] = asyncio.Queue(NOTICES_MAX)
        self._behind = False

    def tell(self, notice: SlashNotice) -> None:
        """Keeps something to be read. Whoever leaves too much unread is told nothing more."""
        if self._behind:
            return
        if self._notices.full():
            self._behind = True
            while not self._notices.empty():
                self._notices.get_nowait()
            self._notices.put_nowait(None)
        else:
            self._notices.put_nowait(notice)

    async def next(self) -> SlashNotice | None:
        """The next notice; None if the stream is to end."""
        return await self._notices.get()


class OpenSlash:
    """A command that waits for the first answer."""

    def __init__(self, key: Key, notice: SlashNotice) -> None:
        self.key = key
        self.notice = notice
        self.answer: asyncio.Future[tuple[SlashAnswer, str]] = asyncio.get_running_loop().create_future()


class SlashDesk:
    """The clients of a server that brought commands, and what waits for them."""

    def __init__(self) -> None:
        self._clients: dict[Key, list[SlashClient]] = {}
        self._open: dict[tuple[Key, str], OpenSlash] = {}
        self._over = False
        self._closed: OrderedDict[tuple[Key, str], str] = OrderedDict()

    def commands(self, key: Key) -> tuple[SlashCommand, ...]:
        """The commands of a session now, by name. Of two of one name the first that came is described."""
        commands: dict[str, SlashCommand] = {}
        for client in self._clients.get(key, ()):
            for name, command in client.commands.items():
                commands.setdefault(name, command)
        return tuple(commands[name] for name in sorted(commands))

    def knows(self, key: Key, name: str) -> bool:
        """Whether a client that is there has a command of this name."""
        return any(name in client.commands for client in self._clients.get(key, ()))

    def join(self, key: Key, client: SlashClient) -> None:
        """A client is there from now on, and is told what is open for it."""
        self._clients.setdefault(key, []).append(client)
        for one in self._open.values():
            if one.key == key and one.notice.name in client.commands:
                client.tell(one.notice)

    def leave(self, key: Key, client: SlashClient) -> None:
        """A client takes its commands along. Whoever waits for one that nobody else has is told so."""
        there = self._clients[key]
        there.remove(client)
        if not there:
            del self._clients[key]
        for one in list(self._open.values()):
            if one.key == key and not self.knows(key, one.notice.name):
                why = f"every client with the command /{one.notice.name} has left before it answered: nothing was sent"
                self._refuse(one, Problem(409, "no_client", why))

    def close(self) -> None:
        """Nobody will answer any more."""
        self._over = True
        for one in list(self._open.values()):
            self._refuse(one, left())

    async def ask(
        self, key: Key, name: str, args: str, *, request_id: str, by: str, seconds: float
    ) -> tuple[SlashAnswer, str]:
        """Puts a command to the clients that have it, and waits for the first answer and whose it is. Raises `Problem`
        if none comes."""
        if sum(one.key.tenant == key.tenant for one in self._open.values()) >= OPEN_MAX:
            raise Problem(429, "busy", f"{OPEN_MAX} slash commands wait for an answer already: try again later")
        if self._over:
            raise left()
        notice = SlashNotice(request_id=request_id, status="open", name=name, args=args, by=by)
        one = self._open[key, request_id] = OpenSlash(key, notice)
        self._tell(one, notice)
        try:
            async with asyncio.timeout(seconds):
                return await one.answer
        except TimeoutError:
            why = f"no client answered the command /{name} within {seconds:g} s: nothing was sent"
            raise Problem(409, "unanswered", why) from None
        finally:
            self._end(one, "withdrawn", by)

    def answer(self, key: Key, request_id: str, answer: SlashAnswer, by: str) -> SlashNotice:
        """Gives the first answer. Raises `Problem` if there was one, or if nobody asks this."""
        one = self._open.get((key, request_id))
        if one is None:
            ended = self._closed.get((key, request_id))
            if ended is None:
                raise Problem(404, "not_found", f"there is no slash command {request_id[:80]!r} that waits")
            raise Problem(409, "not_open", ended)
        one.answer.set_result((answer, by))
        return self._end(one, "answered", by)

    def _refuse(self, one: OpenSlash, problem: Problem) -> None:
        one.answer.set_exception(problem)
        self._end(one, "withdrawn", one.notice.by)

    def _end(self, one: OpenSlash, status: Literal["answered", "withdrawn"], by: str) -> SlashNotice:
        """Ends what is open, once, and tells the clients."""
        notice = msgspec.structs.replace(one.notice, status=status, by=by)
        place = one.key, one.notice.request_id
        if self._open.pop(place, None) is not None:
            self._closed[place] = f"{by} answered it first" if status == "answered" else "nobody waits for it any more"
            while len(self._closed) > CLOSED_MAX:
                self._closed.popitem(last=False)
            self._tell(one, notice)
        return notice

    def _tell(self, one: OpenSlash, notice: SlashNotice) -> None:
        for client in self._clients.get(one.key, ()):
            if notice.name in client.commands:
                client.tell(notice)


def left() -> Problem:
    """What is said to whoever names a command once the last client has gone."""
    return Problem(409, "no_client", "the clients have left: nothing was sent")
