"""Carries out one exchange: sends its commands, and gives the steps that follow until its end. It owns nothing: whoever
leaves stops listening, and the run goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from windlass.events.base import Command
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.runs import RunStarted, Terminal
from windlass.runtime.api.open_things import seq_in
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.runtime.streams.record import Record

from .exchange_feed import heard
from .exchange_view import ExchangeView
from .steps import Began, Ended, Step


async def exchanged(session: Session, commands: Sequence[Command]) -> AsyncIterator[Step]:
    """Sends commands in their order and gives the steps that follow. Of commands that were taken before, what followed
    then: the same request made again is answered again, and nothing happens twice. Raises `Refused`, and `Parked` for
    a session that nothing here can resume."""

    async def send() -> None:
        for command in commands:
            await Sent(session, command)

    async for step in _followed(session, [command.command_id for command in commands], send):
        yield step


async def newest(session: Session) -> AsyncIterator[Step]:
    """The steps of the newest run, until its end: from its beginning, or from the answer to what a tool of it asked
    last. Raises `LookupError` if there was none."""
    begun = seq_in((await session.state()).run.run_id)
    if begun is None:
        raise LookupError("it has had no run yet")
    started = await session.runtime.host.log.event_at(session.key, begun)
    commands = started.commands if isinstance(started, RunStarted) else ()
    inside: set[str] = set()
    async for record in session.records(after=begun):
        if isinstance(record.event, QuestionRequested) and record.event.inside:
            inside.add(record.event.question_id)
        elif isinstance(record.event, AnswerReceived) and record.event.question_id in inside:
            commands = (record.event.command_id,)
    if not commands:
        async for step in rested(session, after=begun - 1):
            yield step
        return

    async for step in followed(session, commands):
        yield step


async def followed(session: Session, commands: Sequence[str]) -> AsyncIterator[Step]:
    """The steps that follow from commands that were taken before."""

    async def sent() -> None:
        return

    async for step in _followed(session, commands, sent):
        yield step


async def rested(session: Session, after: int) -> AsyncIterator[Step]:
    """What has happened behind a record once the session rests: for what no command of its own has begun."""
    await session.result()
    view, terminal = ExchangeView(session.session_id, ()), None
    await _learn(view, session, after + 1)
    records = [record async for record in session.records(after=after)]
    yield Began(first=after + 1, last=after + 1, at_ms=records[0].at_ms if records else 0)
    for record in records:
        terminal = record.event if isinstance(record.event, Terminal) else terminal
        for step in view.feed(record):
            yield step
    yield Ended(seq=records[-1].seq if records else after, terminal=terminal)


async def _followed(session: Session, names: Sequence[str], send: Callable[[], Awaitable[None]]) -> AsyncIterator[Step]:
    """The steps that follow from commands of these ids, once they are sent."""
    log, key = session.runtime.host.log, session.key
    first, last = await log.taken_at(key, names[0]), await log.taken_at(key, names[-1])
    view = ExchangeView(session.session_id, names, await _withdrawn(session, first))
    await _learn(view, session, first)
    if first is not None and last is not None:
        async for record in log.records(key, after=first - 1, until=last - 1):
            for step in view.feed(record):
                yield step
    told = session.runtime.host.streams.follow(key, names[-1], send)
    async for one in heard(session, told):
        for step in view.feed(one):
            yield step
        if view.ended:
            return


async def replayed(session: Session, first: int, last: int) -> list[Step]:
    """The steps of an exchange whose commands stand in these records, as far as it has come. Raises `LookupError` if
    there are no such commands."""
    log, key = session.runtime.host.log, session.key
    begun = [await log.event_at(key, seq) for seq in (first, last)]
    names = [event.command_id for event in begun if isinstance(event, Command)]
    if len(names) < len(begun):
        raise LookupError(f"no exchange begins at record {first}")
    view = ExchangeView(session.session_id, list(dict.fromkeys(names)), await _withdrawn(session, first))
    await _learn(view, session, first)
    steps: list[Step] = []
    async for record in log.records(key, after=first - 1):
        steps += view.feed(record)
        if view.ended:
            break
    return steps


async def end_of(session: Session, commands: Sequence[str]) -> Record | None:
    """The record with which the exchange of commands that were taken is over; None if it is not over yet."""
    log, key = session.runtime.host.log, session.key
    first = await log.taken_at(key, commands[0])
    if first is None:
        return None
    view = ExchangeView(session.session_id, commands, await _withdrawn(session, first))
    await _learn(view, session, first)
    async for record in log.records(key, after=first - 1):
        view.feed(record)
        if view.ended:
            return record
    return None


async def _withdrawn(session: Session, first: int | None) -> set[str]:
    """The questions that were withdrawn since this record. Those of a tool that was cut off are asked anew, under other
    names, if it runs again: whoever asks what became of the exchange is told of those."""
    if first is None:
        return set()
    records = session.runtime.host.log.records(session.key, after=first)
    return {one.event.question_id async for one in records if isinstance(one.event, QuestionWithdrawn)}


async def _learn(view: ExchangeView, session: Session, first: int | None) -> None:
    """Has a view know the calls that were open when the exchange began."""
    log, key = session.runtime.host.log, session.key
    state = await (session.state() if first is None else log.state_at(key, first - 1))
    begun = [seq for call in state.open_calls() if (seq := seq_in(call.call_id)) is not None]
    if begun:
        async for record in log.records(key, after=min(begun) - 1, until=first - 1 if first is not None else None):
            view.learn(record)
