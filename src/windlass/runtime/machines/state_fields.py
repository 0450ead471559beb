"""Drafts of states read into values: each field belongs to its kind, durations become numbers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.machines import MachineOutcome, MachineState, StateKind
from windlass.tools.types.wrong_fields import wrong_field

from .drafts import Draft
from .durations import milliseconds, moment

KINDS: tuple[str, ...] = get_args(StateKind)
OUTCOMES: tuple[str, ...] = get_args(MachineOutcome)
COMMON = ("when", "next", "on_failure", "input")
PROGRAM = ("command", "cwd", "timeout", "success_codes")
FIELDS: dict[str, tuple[str, ...]] = {
    "agent": (*COMMON, "prompt"),
    "script": (*COMMON, *PROGRAM),
    "poll": (*COMMON, *PROGRAM, "every", "give_up"),
    "timer": (*COMMON, "at", "after", "misfire", "late"),
    "park": (*COMMON, "question"),
    "terminal": ("when", "outcome", "reason"),
}
"""What may be said of a state, by its kind."""
NEEDED: dict[str, tuple[str, ...]] = {
    "agent": ("prompt",),
    "script": ("command",),
    "poll": ("command", "every"),
    "timer": (),
    "park": ("question",),
    "terminal": (),
}
TIMES: dict[str, tuple[str, Callable[[Any], int]]] = {
    "timeout": ("timeout_ms", milliseconds),
    "every": ("every_ms", milliseconds),
    "give_up": ("give_up_ms", milliseconds),
    "after": ("after_ms", milliseconds),
    "late": ("late_ms", milliseconds),
    "at": ("at_ms", moment),
}
"""Fields that people write as durations or times, and what they are kept as."""
TIMEOUT_MS_MAX = 600_000


def read(draft: Draft, problems: list[str]) -> MachineState | None:
    """The state that a draft describes; None, and what is wrong with it, if it describes none."""
    where = draft.name
    if draft.kind in OUTCOMES:
        draft = Draft(draft.name, "terminal", {"outcome": draft.kind, **draft.fields})
    if draft.kind not in FIELDS:
        close = difflib.get_close_matches(draft.kind, (*KINDS, *OUTCOMES), n=1)
        fix = f"did you mean {close[0]!r}?" if close else f"there are {', '.join((*KINDS, *OUTCOMES))}"
        problems.append(f"{where}: {draft.kind!r} is no kind of a state: {fix}")
        return None
    before = len(problems)
    allowed = FIELDS[draft.kind]
    for key in draft.fields:
        if key not in allowed:
            problems.append(f"{where}: {draft.kind} states have no {key!r}: they have {', '.join(allowed)}")
    for key in NEEDED[draft.kind]:
        if not draft.fields.get(key):
            problems.append(f"{where}: it needs {key!r}: {HINTS[key]}")
    if draft.kind == "timer" and ("at" in draft.fields) == ("after" in draft.fields):
        problems.append(f"{where}: a timer needs 'after' (such as '2h') or 'at' (a date), and not both")
    given = {key: value for key, value in draft.fields.items() if key in allowed}
    plain = _timed(where, given, problems)
    state = _converted(where, draft, plain, problems)
    if state is not None and state.timeout_ms > TIMEOUT_MS_MAX:
        problems.append(f"{where}: a program may take 10 minutes: let a poll look for what takes longer")
    return state if len(problems) == before else None


HINTS = {
    "prompt": "what the agent is told",
    "command": "a program and its arguments, such as ['make', 'test']",
    "every": "how long to wait between two attempts, such as '1m'",
    "question": "what the person is asked",
}


def _timed(where: str, given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The fields with durations and times as numbers."""
    plain: dict[str, Any] = {}
    for key, value in given.items():
        name, convert = TIMES.get(key, (key, None))
        try:
            plain[name] = value if convert is None else convert(value)
        except UsageError as error:
            problems.append(f"{where}: {key}: {error}")
    return plain


def _converted(where: str, draft: Draft, plain: dict[str, Any], problems: list[str]) -> MachineState | None:
    if isinstance(plain.get("next"), str):
        plain["next"] = [plain["next"]]
    if isinstance(plain.get("next"), Mapping):
        problems.append(
            f"{where}: next is a list of states, such as [review, merge]: one follows by itself, of several the "
            "agent chooses one (behind a park a person); what follows a failure is 'on_failure'"
        )
        return None
    if isinstance(plain.get("command"), str):
        problems.append(
            f"{where}: a command is a list, so that no shell reads it: ['sh', '-c', …] is one, with the input in "
            "its environment"
        )
        return None
    try:
        return known_types.convert({"name": draft.name, "kind": draft.kind, **plain}, MachineState)
    except msgspec.ValidationError as error:
        problems.append(f"{where}: {wrong_field(error, MachineState)}")
        return None
