"""One session in a few lines: what it is and does, what it waits for, and the commands that make it go on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from windlass.cli import shell_lines
from windlass.cli.terminal.text import Paint, one_line
from windlass.cli.terminal.visible_text import spelt
from windlass.events.questions import QuestionRequested
from windlass.events.sessions import RewindReceived
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import ModelFailed
from windlass.runtime.machines.machine_view import MachineView
from windlass.runtime.operate.log_point import Point
from windlass.runtime.operate.open_requests import Asker, asked_in_tree, unsettled_in_tree
from windlass.store.base import IndexRow
from windlass.tools.jobs.job_host import JobRow

from . import labels, number_words, person_requests
from .graphs import machine_lines
from .job_lines import job_lines
from .sandbox_words import sandbox_said

WHY_CHARS_MAX = 400
REWOUND_MAX = 20
CREDENTIALS = "credentials"
OUTCOMES = ("happened", "did_not_happen", "run_again")


def about(
    point: Point,
    *,
    driver: str,
    inbox: int,
    forks: list[str],
    jobs: tuple[JobRow, ...],
    machine: MachineView | None = None,
) -> list[str]:
    """The session in a few lines. `driver` is whoever has it now, in figures; `jobs` are as they are here and now."""
    state, view, spent = point.state, point.overview, point.state.budget.spent
    rows = [
        ("session", f"{spelt(point.key.session)}{f'  “{one_line(view.title, 48)}”' if view.title else ''}"),
        ("state", state_of(point, driver)),
        ("agent", f"{spelt(view.agent)}   model {spelt(state.setup.model.name)}   mode {state.setup.mode}"),
        ("tools", ", ".join(map(spelt, state.toolset.tools)) or "none"),
        ("log", f"{number_words.plural(state.seq, 'record')}, {number_words.plural(state.turn.number, 'turn')}"),
        (
            "used",
            f"{number_words.tokens(spent.usage)} (tokens), {number_words.dollars(spent.cost_nanos)}",
        ),
        ("begun", number_words.moment(view.created_ms)),
        ("changed", number_words.moment(view.updated_ms)),
    ]
    if where := sandbox_said(state):
        rows.insert(4, ("sandbox", where))
    rows += [("labels" if n == 0 else "", line) for n, line in enumerate(labels.lines(point))]
    if view.waiting_for == (CREDENTIALS,):
        rows.insert(2, ("why", refused(point)))
    if machine is not None:
        rows.append(("machine", machine_lines.stands(machine, point.waiting_words)))
        rows += [("", f"so far: {machine_lines.progress_line(machine)}")] if machine.progress else []
    elif view.stands:
        rows.append(("workflow", one_line(view.stands, WHY_CHARS_MAX)))
    if driver and not state.active:
        rows.append(("open in", driver))
    if view.next_wake_ms is not None:
        rows.append(("wakes", number_words.moment(view.next_wake_ms)))
    if state.queue.waiting:
        rows.append(("queue", number_words.plural(len(state.queue.waiting), "prompt") + " waiting"))
    for number, line in enumerate(job_lines([row for row in jobs if row.job_id in state.jobs.open])):
        rows.append(("jobs" if number == 0 else "", line))
    for number, line in enumerate(rewound_files(point)):
        rows.append(("files" if number == 0 else "", line))
    if inbox:
        rows.append(("inbox", number_words.plural(inbox, "command") + " that nobody has taken yet"))
    if forks:
        rows.append(("forks", ", ".join(map(spelt, forks))))
    return number_words.table(rows)


def rewound_files(point: Point) -> list[str]:
    """What the last rewind that was to put files back did to them, and what it left as it was, with the reason."""
    last = [event for event in point.events.values() if isinstance(event, RewindReceived) and event.files][-1:]
    lines = [f"put back {spelt(change.path)}" for event in last for change in event.changes]
    lines += [f"left {spelt(file.path)}: {one_line(file.why, WHY_CHARS_MAX)}" for event in last for file in event.left]
    more = [f"and {len(lines) - REWOUND_MAX:,} more: windlass logs"] if len(lines) > REWOUND_MAX else []
    return [*lines[:REWOUND_MAX], *more]


def refused(point: Point) -> str:
    """What the provider, or whoever looked for a key, said last."""
    said = [event.failure.message for event in point.events.values() if isinstance(event, ModelFailed)]
    return one_line(said[-1], WHY_CHARS_MAX) if said else "the provider takes no request without a key"


def state_of(point: Point, driver: str) -> str:
    """What it does, and if it rests, why."""
    state, view = point.state, point.overview
    if view.waiting_for:
        return f"{view.state}: waits for {', '.join(map(spelt, point.waiting_words or view.waiting_for))}"
    if point.gone_to is not None:
        place, name = point.gone_to
        return f"left: it goes on as {spelt(name)} at {spelt(place)}"
    if point.has_ended:
        why = f": {one_line(state.losses.parked, WHY_CHARS_MAX)}" if state.losses.parked else ""
        return f"ended, and the session that began it was told{why}"
    if view.state == "parked":
        return f"parked: {one_line(state.losses.parked, WHY_CHARS_MAX)}"
    if state.run.resumable and view.state == "idle":
        return "idle: its last run was stopped and may continue"
    if state.active:
        return f"{view.state}: {f'{driver} drives it now' if driver else 'cut off, and nobody drives it now'}"
    return view.state


def how_to_go_on(
    point: Point, root: IndexRow, args: argparse.Namespace, *, held: bool, answered: bool, flow_id: str = ""
) -> list[str]:
    """The command that makes a session go on which waits for nobody, or has its answer in the inbox: whoever runs the
    root of its tree drives it too. `flow_id` is the workflow that it is, or belongs to."""
    state, session = point.state, point.key.session
    run = (
        shell_lines.flow_of(flow_id, args)
        if flow_id
        else shell_lines.run_of(root.agent or point.overview.agent, root.session, args)
    )
    run = f"  {run}"
    name, at = shell_lines.word(session), shell_lines.at(args)
    if point.has_ended:
        return [f"  windlass show {shell_lines.word(root.session)}{at}", f"  windlass fork {name}{at}"]
    if point.gone_to is not None:
        return [f"  windlass fork {name}{at}"]
    if state.active:
        return [f"  windlass logs {name} -f{at}"] if held else [run]
    if answered or (point.overview.waiting_for and all(is_key(name) for name in point.overview.waiting_for)):
        return [run]
    if state.run.resumable or point.overview.next_wake_ms is not None or state.queue.waiting:
        return [f"  windlass wake {name}{at}", run]
    if flow_id:
        return [f"  windlass flow show {shell_lines.word(flow_id)}{at}"]
    return [f"{run} 'what to do now'"] if root.session == session else [run]


def is_key(name: str) -> bool:
    """Whether what is waited for is the key of a provider, here or below."""
    return name.rpartition("/")[2] == CREDENTIALS


def open_questions(askers: Sequence[Asker], at: str, answers: dict[str, str]) -> list[str]:
    """What waits for a person in a session and below it, whole, and the commands that answer it; or the answer that is
    in the inbox already."""
    paint, lines = Paint(), []
    session = askers[0].point.key.session
    for request in asked_in_tree(askers):
        lines += ["", *below(request.scope, askers)]
        if isinstance(request.shown, PermissionRequested):
            lines += person_requests.permission_lines(request.shown, paint)
        elif isinstance(request.shown, QuestionRequested):
            lines += person_requests.question_lines(request.shown, paint)
        how = person_requests.how_to_answer(session, request.name, request.kind, at)
        lines += under_way(answers[request.name]) if request.name in answers else how
    for call in unsettled_in_tree(askers):
        settle = f"  windlass settle {shell_lines.word(session)} {shell_lines.word(call.name)}"
        lines += ["", *below(call.scope, askers), *person_requests.unsettled_lines(call, paint)]
        if call.name in answers:
            lines += under_way(answers[call.name])
            continue
        lines.append("say what happened:")
        lines += [f"{settle} {outcome}{at}" for outcome in OUTCOMES]
    return lines


def keys_wanted(askers: Sequence[Asker]) -> list[str]:
    """The sessions below that wait for the key of a provider, each with what was said about it."""
    lines: list[str] = []
    for asker in askers:
        if asker.scope and asker.point.overview.waiting_for == (CREDENTIALS,):
            lines += ["", *below(asker.scope, askers), f"  it waits for a key: {refused(asker.point)}"]
    return lines


def below(scope: str, askers: Sequence[Asker]) -> list[str]:
    """Which session asks, if it is one below the one that is looked at."""
    agents = [asker.point.overview.agent for asker in askers if scope and asker.scope == scope]
    return [f"below, in {spelt(scope)} ({spelt(agent)}):" for agent in agents]


def under_way(answer: str) -> list[str]:
    """An answer that nobody has taken yet."""
    return [f"  answered: {spelt(answer)}; it waits in the inbox until the session is driven"]
