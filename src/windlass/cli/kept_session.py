"""A session before it is opened: the options that it was given hold until they are given otherwise; and what went
wrong when it was set up."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from windlass.events.errors import UsageError
from windlass.events.values.setup import SessionOptions
from windlass.runtime.bind.session_options import NO_OPTIONS, recorded
from windlass.runtime.operate.log_point import Point, read_point
from windlass.store.base import Key

from . import options, stores
from .agents import NAME
from .shell_lines import file_of

if TYPE_CHECKING:
    from windlass.cli.screen.live_printer import Narrator
    from windlass.kernel.state import State
    from windlass.runtime.api.session import Session


class Kept(NamedTuple):
    """A session as its log has it, before anybody drives it."""

    options: SessionOptions = NO_OPTIONS
    state: State | None = None
    """None if there is no such session yet."""


async def kept(args: argparse.Namespace) -> Kept:
    """What is on record of the session that is named. Raises `UsageError` if it is one of an agent of a file, and none
    is named."""
    if not args.session or not (options.url_of(args) or options.is_there(options.place_of(args))):
        return Kept()
    async with stores.opened(args) as store:
        key = Key(args.tenant, args.session)
        head = await store.log.head(key)
        if head is None or head.seq == 0:
            return Kept()
        point = await read_point(store, key)
        return Kept(NO_OPTIONS if options.url_of(args) else options_at(args, point), point.state)


def options_at(args: argparse.Namespace, point: Point) -> SessionOptions:
    """What a session was given, as its log has it. Raises `UsageError` if it is one of an agent of a file, and none is
    named."""
    setup = point.state.setup
    if args.agent is None and setup.agent.name != NAME:
        name = setup.agent.name
        raise UsageError(f"session {point.key.session!r} is one of agent {name!r}: add --agent {file_of(name)}")
    return recorded(setup.options, point.events.get(setup.seq))


async def tell_beginning(session: Session, narrator: Narrator) -> None:
    """Tells which skills a new session was to have and has not: nobody watched while it was set up. Of one that had a
    run already, nothing."""
    from windlass.events.skills import SkillFailed

    if (await session.state()).run.run_id:
        return
    async for record in session.records():
        if isinstance(record.event, SkillFailed):
            narrator.tell(record)
