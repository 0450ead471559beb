"""`windlass show`: one session, what it waits for and how to answer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from windlass.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.runtime.machines.machine_view import MachineView
    from windlass.runtime.operate.open_requests import Asker
    from windlass.store.base import Holder, Key, Store
    from windlass.tools.jobs.job_host import JobRow

EXAMPLES = """examples:
  windlass show march                what it is, what it does, what it waits for and how to continue
  windlass show march --json         the same for programs
"""
LABEL_WIDTH = 9


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, show)


async def show(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Prints it."""
    import sys

    from windlass.cli import shell_lines, stores
    from windlass.cli.screen import lease_holders
    from windlass.cli.screen.session_summary import about, how_to_go_on, keys_wanted, open_questions
    from windlass.cli.screen.tracebacks import raised_lines
    from windlass.cli.terminal.text import Paint, put, tell, tell_json
    from windlass.runtime.machines.machine_view import view_at
    from windlass.runtime.operate.disk_room import no_room
    from windlass.runtime.operate.lease_holder import holder_of
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.open_requests import answers_in_tree, askers
    from windlass.runtime.operate.session_jobs import jobs_at, looked_up
    from windlass.runtime.streams.log_reader import LogReader

    point = await read_point(store, key)
    waiting, forks = await store.inbox.waiting(key), await store.log.forks(key)
    asking = await askers(store, point)
    holder, answers = await holder_of(store, key), await answers_in_tree(store, asking)
    place = options.place_of(args)
    jobs = await looked_up(jobs_at(point, point.overview.updated_ms), point, place, store)
    machine = await view_at(LogReader(store), key, point.state)
    full = no_room(place)
    if full:
        put(full, sys.stderr)
    if args.json:
        tell_json(plain(asking, holder, inbox=len(waiting), forks=forks, answers=answers, jobs=jobs, machine=machine))
        return 0
    driver = lease_holders.driver(holder) if holder is not None else ""
    for line in about(point, driver=driver, inbox=len(waiting), forks=forks, jobs=jobs, machine=machine):
        tell(line, indent=" " * LABEL_WIDTH)
    lines = open_questions(asking, shell_lines.at(args), answers)
    if not lines or (answers and not driver):
        flow_id, root = await stores.flow_of(store, key), await stores.root_row_of(store, key)
        lines += ["", *how_to_go_on(point, root, args, held=bool(driver), answered=bool(answers), flow_id=flow_id)]
    for line in (*raised_lines(point, shell_lines.at(args), Paint()), *keys_wanted(asking), *lines):
        put(line)
    return 0


def plain(
    asking: Sequence[Asker],
    holder: Holder | None,
    *,
    inbox: int,
    forks: list[str],
    answers: dict[str, str],
    jobs: tuple[JobRow, ...],
    machine: MachineView | None,
) -> dict[str, Any]:
    """The session for programs."""
    import msgspec

    from windlass.cli.screen import lease_holders
    from windlass.runtime.operate.label_sources import sources
    from windlass.runtime.operate.open_requests import named

    point, *_ = (asker.point for asker in asking)
    overview: dict[str, Any] = msgspec.to_builtins(point.overview)
    return {
        **overview,
        "session": point.key.session,
        "seq": point.seq,
        "inbox": inbox,
        "forks": forks,
        "held": holder is not None,
        "holder": lease_holders.plain_holder(holder),
        "answers": answers,
        "labels": [{**msgspec.to_builtins(told.found), "subject": told.subject} for told in sources(point)],
        "quarantined": point.state.labels.quarantined,
        "jobs": [msgspec.to_builtins(row) for row in jobs],
        "machine": msgspec.to_builtins(machine),
        "open": [
            {**msgspec.to_builtins(ask), "ask_id": named(asker.scope, ask.ask_id), "scope": asker.scope}
            for asker in asking
            for ask in asker.point.state.asked
        ],
    }
