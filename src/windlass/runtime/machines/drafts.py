"""States as they are written down, in Python or in a file: words for durations, and nothing checked yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Names = str | Sequence[str]


@dataclass(frozen=True)
class Draft:
    """A state as it was written. A `Machine` checks all of its states together."""

    name: str
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def agent(name: str, prompt: str, *, next: Names = (), **more: Any) -> Draft:
    """The agent works on something; `{input.name}` in the prompt stands for a value of the input. What it says last is
    what the state gives."""
    return _draft(name, "agent", next, more, prompt=prompt)


def script(name: str, command: Sequence[str], *, next: Names = (), **more: Any) -> Draft:
    """A program runs in the session's sandbox, once. `{input.name}` as a whole argument stands for a value of the
    input; the input is in the environment too."""
    return _draft(name, "script", next, more, command=command)


def poll(name: str, command: Sequence[str], *, every: Any, next: Names = (), **more: Any) -> Draft:
    """A program runs again and again until it ends with one of `success_codes`; in between the session sleeps."""
    return _draft(name, "poll", next, more, command=command, every=every)


def timer(name: str, *, after: Any = None, at: Any = None, next: Names = (), **more: Any) -> Draft:
    """A time is waited for: a duration from now, or a date."""
    given = {key: value for key, value in (("after", after), ("at", at)) if value is not None}
    return _draft(name, "timer", next, more, **given)


def park(name: str, question: str, *, next: Names = (), **more: Any) -> Draft:
    """A person decides: what they may choose are the states that may follow."""
    return _draft(name, "park", next, more, question=question)


def completed(name: str, reason: str = "", **more: Any) -> Draft:
    """The machine ends there: what it was for is done."""
    return _draft(name, "terminal", (), more, outcome="completed", reason=reason)


def failed(name: str, reason: str = "", **more: Any) -> Draft:
    """The machine ends there: what it was for cannot be done."""
    return _draft(name, "terminal", (), more, outcome="failed", reason=reason)


def cancelled(name: str, reason: str = "", **more: Any) -> Draft:
    """The machine ends there: nobody wants any more what it was for."""
    return _draft(name, "terminal", (), more, outcome="cancelled", reason=reason)


def _draft(name: str, kind: str, next: Names, more: Mapping[str, Any], **own: Any) -> Draft:
    """`more` may hold when, on_failure, input, cwd, timeout, success_codes, give_up, misfire and late."""
    follow = {"next": [next] if isinstance(next, str) else list(next)} if next else {}
    return Draft(name, kind, {**own, **follow, **more})
