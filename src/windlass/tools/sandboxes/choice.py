"""Which kinds of sandbox there are, by name; which of them work on this machine; and which is the best."""

from __future__ import annotations

from typing import Any, Literal, get_args

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Value
from windlass.tools.context import ToolError

from .sandbox import Sandbox, SandboxKind

SandboxName = Literal["auto", "local", "bubblewrap", "landlock", "container"]
BY_WORTH = ("bubblewrap", "landlock", "container")
"""Those that confine, the best first. A container comes last: its image has other programs than this machine."""


class Candidate(Value, frozen=True, kw_only=True):
    """A kind of sandbox on this machine."""

    name: str
    problem: str | None = None
    """Why it cannot be used; None if it can."""


def candidates() -> tuple[Candidate, ...]:
    """Those that confine, tried out, the best first."""
    return tuple(Candidate(name=name, problem=_kind(name, ()).problem()) for name in BY_WORTH)


def best(choices: tuple[Candidate, ...] | None = None) -> str:
    """The name of the best that works; the local one, which confines nothing, if none does."""
    return next((each.name for each in choices or candidates() if each.problem is None), "local")


def sandbox_named(name: str, *, hidden: tuple[str, ...] = ()) -> SandboxKind:
    """A kind by its name; `auto` is the best that works. `hidden` are paths that its processes must not see. Raises
    `UsageError` for one that there is not, or that cannot be used here."""
    if name not in get_args(SandboxName):
        raise UsageError(f"no sandbox {name!r}: give one of {', '.join(get_args(SandboxName))}")
    chosen = best() if name == "auto" else name
    kind = _kind(chosen, hidden)
    problem = kind.problem() if chosen != "local" and name != "auto" else None
    if problem is not None:
        raise UsageError(f"the sandbox {name!r} cannot be used here: {problem}; 'windlass doctor' says what can be")
    made: SandboxKind = kind
    return made


def resolved(name: str) -> str:
    """The name under which a sandbox is put on record: what `auto` is here. Raises `UsageError` as `sandbox_named`."""
    return name_of(sandbox_named(name))


def name_of(kind: SandboxKind) -> str:
    """What a kind is called on record: one of ours by its name, any other by that of its class."""
    named = getattr(kind, "name", None)
    return named if isinstance(named, str) and named else type(kind).__name__


def sandbox_on_record(name: str, *, hidden: tuple[str, ...] = ()) -> SandboxKind:
    """The kind that a log names. One that is not there lets nothing run: each use of it fails with `no_sandbox`."""
    if name == "local" or name in BY_WORTH:
        kind: SandboxKind = _kind(name, hidden)
        return kind
    return MissingSandboxes(name)


def why_missing(name: str) -> str | None:
    """Why the kind that a log names cannot be used here; None if it can."""
    if name == "local":
        return None
    if name not in BY_WORTH:
        return "this process was not given it"
    problem: str | None = _kind(name, ()).problem()
    return problem


class MissingSandboxes:
    """Stands for a kind that this process does not have."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self, session: str, folder: str | None) -> Sandbox:
        """Raises `ToolError`."""
        told = f"session {session!r} runs its processes in a sandbox {self.name!r}, which this process was not given"
        raise ToolError(f"{told}: open the runtime with it, or name another one", code="no_sandbox")


def _kind(name: str, hidden: tuple[str, ...]) -> Any:
    match name:
        case "bubblewrap":
            from .bubblewrap import BubblewrapSandboxes

            return BubblewrapSandboxes(hidden=hidden)
        case "landlock":
            from .landlock import LandlockSandboxes

            return LandlockSandboxes(hidden=hidden)
        case "container":
            from .container import ContainerSandboxes

            return ContainerSandboxes(hidden=hidden)
    from .local import LocalSandboxes

    return LocalSandboxes()
