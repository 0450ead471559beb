"""`windlass jobs`: the background jobs of a session; read what one prints, or end it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.operate.log_point import Point
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass jobs march                  what runs in the background, and what has ended
  windlass jobs march --tail j12.0     the end of what a job has printed
  windlass jobs march --kill j12.0     end a job, with all that it started
"""
TAIL_BYTES = 16 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--tail", metavar="JOB", help="print the end of what a job has printed")
    what.add_argument("--kill", metavar="JOB", help="end a job, with all that it started")
    what.add_argument("--json", action="store_true", help="print the list as JSON")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, jobs)


async def jobs(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Lists them, or does what is wanted with one."""
    from windlass.runtime.operate.log_point import read_point

    point = await read_point(store, key)
    if args.tail is not None:
        return await tail(args, store, key, known(point, args.tail))
    if args.kill is not None:
        return await kill(args, store, key, known(point, args.kill))
    return await listed(args, store, point)


def known(point: Point, name: str) -> str:
    """The id of a job that there is. Raises `UsageError` otherwise."""
    from windlass.events.errors import UsageError

    there = [*point.state.jobs.open, *(job.job_id for job in point.state.jobs.ended)]
    if name not in there:
        raise UsageError(f"session {point.key.session!r} has no job {name!r}: there is {', '.join(there) or 'none'}")
    return name


async def listed(args: argparse.Namespace, store: Store, point: Point) -> int:
    """Prints the list."""
    import msgspec

    from windlass.cli import stores
    from windlass.cli.screen.job_lines import job_lines
    from windlass.cli.terminal.text import put, tell, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.runtime.operate.session_jobs import jobs_at, looked_up

    rows = await looked_up(jobs_at(point, stores.now_ms()), point, options.place_of(args), store)
    if args.json:
        tell_json([msgspec.to_builtins(row) for row in rows])
        return 0
    for line in job_lines(rows):
        put(line)
    if not rows:
        tell(f"session {spelt(point.key.session)} has no background jobs")
    return 0


async def tail(args: argparse.Namespace, store: Store, key: Key, name: str) -> int:
    """Prints the end of what a job has printed."""
    from windlass.cli.terminal.text import put, tell
    from windlass.runtime.operate.session_jobs import jobs_on_this_machine
    from windlass.tools.shell.shown_output import shown_text

    options.here_only(args, "looking at what a job has printed")
    host = jobs_on_this_machine(options.place_of(args), store, key)
    printed = await host.output(name, -TAIL_BYTES, TAIL_BYTES)
    if printed.offset:
        tell(f"({printed.offset:,} bytes before this)")
    if not printed.size:
        tell("(nothing of it is kept on this machine)" if not host.folder(name).is_there else "(nothing yet)")
    put(shown_text(printed.data).rstrip("\n"))
    return 0


async def kill(args: argparse.Namespace, store: Store, key: Key, name: str) -> int:
    """Has a job end: whoever drives the session puts it on record; if nobody does, it ends all the same."""
    from windlass.cli import command_delivery, identity
    from windlass.events.tools.jobs import KillReceived
    from windlass.runtime.operate.session_jobs import jobs_on_this_machine

    command = KillReceived(command_id=identity.fresh_command_id(), actor=identity.actor(), job_id=name)
    code = await command_delivery.send(store, key, command, f"kill: job {name} ends, with all that it started", args)
    if not options.url_of(args):
        await jobs_on_this_machine(options.place_of(args), store, key).stop(name, "killed")
    return code
