"""Carries out one exchange: sends its commands, and gives the steps that follow until its end. It owns nothing: whoever
leaves stops listening, and the run goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from windlass.events.base import Command
from windlass.events.live import StreamTruncated
from windlass.runtime.api.open_things import seq_in
from windlass.runtime.api.session import Sent, Session
from windlass.runtime.streams.subscribers import Told

from .exchange_view import ExchangeView
from .steps import Step


async def exchanged(session: Session, commands: Sequence[Command]) -> AsyncIterator[Step]:
    """Sends commands in their order and gives the steps that follow. Of commands that were taken before, what followed
    then: the same request made again is answered again, and nothing happens twice. Raises `Refused`."""
    log, key = session.runtime.host.log, session.key
    view = ExchangeView(session.session_id, [command.command_id for command in commands])
    first = await log.taken_at(key, commands[0].command_id)
    last = await log.taken_at(key, commands[-1].command_id)
    await _learn(view, session, first)
    if first is not None and last is not None:
        async for record in log.records(key, after=first - 1, until=last - 1):
            for step in view.feed(record):
                yield step

    async def send() -> None:
        for command in commands:
            await Sent(session, command)

    told = session.runtime.host.streams.follow(key, commands[-1].command_id, send)
    while True:
        behind: int | None = None
        async for one in _until(told, view):
            if isinstance(one, StreamTruncated) and one.reason == "disconnected":
                behind = one.after_seq
                continue
            for step in view.feed(one):
                yield step
        if view.ended or behind is None:
            return
        told = session.tail(after=behind)


async def replayed(session: Session, first: int, last: int) -> list[Step]:
    """The steps of an exchange whose commands stand in these records, as far as it has come. Raises `LookupError` if
    there are no such commands."""
    log, key = session.runtime.host.log, session.key
    begun = [await log.event_at(key, seq) for seq in (first, last)]
    names = [event.command_id for event in begun if isinstance(event, Command)]
    if len(names) < len(begun):
        raise LookupError(f"no exchange begins at record {first}")
    view = ExchangeView(session.session_id, list(dict.fromkeys(names)))
    await _learn(view, session, first)
    steps: list[Step] = []
    async for record in log.records(key, after=first - 1):
        steps += view.feed(record)
        if view.ended:
            break
    return steps


async def _until(told: AsyncIterator[Told], view: ExchangeView) -> AsyncIterator[Told]:
    async for one in told:
        yield one
        if view.ended:
            return


async def _learn(view: ExchangeView, session: Session, first: int | None) -> None:
    """Has a view know the calls that were open when the exchange began."""
    log, key = session.runtime.host.log, session.key
    state = await (session.state() if first is None else log.state_at(key, first - 1))
    begun = [seq for call in state.open_calls() if (seq := seq_in(call.call_id)) is not None]
    if begun:
        async for record in log.records(key, after=min(begun) - 1, until=first - 1 if first is not None else None):
            view.learn(record)
