"""Guards against machines that get nowhere: a state entered again and again, a poll that tests nothing, an agent that
chooses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .states import Machine

WARN_AT = 5
"""So many visits of one state: whoever enters it is told."""
CHOICES_MAX = 3
"""How often the agent is told to choose before the machine fails."""


def in_circles(machine: Machine, name: str) -> str:
    """What is wrong with entering this state once more; empty if nothing is."""
    times = machine.entries.get(name, 0)
    often = machine.spec is not None and times >= machine.spec.visits_max
    return f"it goes in circles: {name} was entered {times} times" if often else ""


def warning(machine: Machine, name: str) -> str:
    """What an agent is told that has entered a state often; empty if it has not."""
    times = machine.entries.get(name, 0)
    return f"; it has been entered {times} times: do you go in circles?" if times >= WARN_AT else ""


def tests_nothing(machine: Machine) -> str:
    """What is wrong with the poll that has just found what it waits for; empty if it had to wait."""
    quick = machine.quick.get(machine.current, 0) + 1 if not machine.slept else 0
    if machine.spec is None or quick < machine.spec.quick_polls_max:
        return ""
    return f"the poll {machine.current} found at once what it waits for, {quick} times in a row: it tests nothing"


def may_remind(machine: Machine) -> bool:
    """Whether the agent is to be told once more to choose a state."""
    return machine.reminders < CHOICES_MAX
