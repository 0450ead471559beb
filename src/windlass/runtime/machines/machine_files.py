"""State machines out of files: JSON or YAML, plain data, checked as a whole. Nothing in a file is run."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from windlass.runtime.flows.flow_files import as_meant, unknown, values_in

from .drafts import Draft
from .machine import BadMachine, Machine

TOP = ("name", "when", "first", "states", "visits_max", "quick_polls_max")


def load_machine(path: str | os.PathLike[str]) -> Machine:
    """The state machine that a file describes. Raises `BadMachine` with all that is wrong."""
    return machine_from(values_in(path, "a state machine", "name and states"), str(path))


def machine_from(values: Mapping[str, Any], place: str) -> Machine:
    """The same of values that were read already."""
    name = str(values.get("name") or pathlib.Path(place).stem)
    problems = [unknown("key", key, TOP) for key in values if key not in TOP]
    values = as_meant(values, TOP) if problems else values
    drafts = _drafts(values.get("states"), problems)
    more = {key: values[key] for key in ("when", "first", "visits_max", "quick_polls_max") if key in values}
    if not problems:
        return Machine(name, drafts, **more)
    try:
        Machine(name, drafts, **more)
    except BadMachine as error:
        problems += error.problems if drafts else []
    raise BadMachine(name, problems)


def _drafts(listed: Any, problems: list[str]) -> list[Draft]:
    if not isinstance(listed, list):
        problems.append("states: a list is wanted, each with name, kind, and what happens there")
        return []
    drafts = []
    for number, given in enumerate(listed, start=1):
        if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
            problems.append(f"state {number}: a table of fields is wanted, with name and kind")
            continue
        fields = {str(key): value for key, value in given.items() if key not in ("name", "kind")}
        drafts.append(Draft(given["name"], str(given.get("kind", "")), fields))
    return drafts
