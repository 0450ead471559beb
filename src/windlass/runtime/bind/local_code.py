"""What this process alone adds to one session: code that was mounted, clients that run tools, and what was lent to
single runs. None of it is stored: the log knows names and digests, and whoever goes on elsewhere brings it again."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import Refused, UsageError
from windlass.events.values.tools import ToolSpec, ToolText
from windlass.models.tokens import estimate_json
from windlass.tools.tool import AnyTool, Options, Tool

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.models.base import Model
    from windlass.runtime.hooks.hook import Hook
    from windlass.runtime.hooks.hook_runner import HookRunner

HOOKED_RUNS_MAX = 256
"""How many prompts with hooks of their own may wait or run in one session."""


class Lent(msgspec.Struct, frozen=True, kw_only=True):
    """What a prompt brings along for its run: hooks, and a model that is no name but an object."""

    hooks: tuple[Hook, ...] = ()
    model: Any = None

    def __bool__(self) -> bool:
        return bool(self.hooks) or self.model is not None


class LocalCode:
    """Belongs to one session as long as the process lives, whoever drives the session meanwhile."""

    def __init__(self) -> None:
        self.code: dict[tuple[str, str], AnyTool] = {}
        """Mounted tools by name and digest: a newer version never runs in the place of an older one."""
        self.mounting: dict[str, tuple[ToolSpec, ...]] = {}
        """What the mount commands that are on their way from this process offer, by command id."""
        self.clients: dict[str, int] = {}
        """How many clients in this process run a tool, by its name."""
        self.handed_on: set[str] = set()
        """Calls that a client here has handed to somebody else, who will give the result."""
        self.models: dict[str, Model] = {}
        self.hooks: dict[str, tuple[Hook, ...]] = {}
        """The hooks of single runs, by the command that opened the run."""
        self._hooked: dict[str, tuple[frozenset[str], HookRunner]] = {}

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.code or self.mounting or self.clients or self.models or self.hooks)

    # --- code ---

    def bring(self, tools: Iterable[AnyTool]) -> tuple[ToolSpec, ...]:
        """Makes the code of tools known, and gives them as the kernel knows them."""
        specs = []
        for tool in tools:
            self.code[(tool.name, tool.spec.digest)] = tool
            specs.append(weighed(tool))
        return tuple(specs)

    def named(self, name: str) -> AnyTool | None:
        """The newest code that was brought under a name."""
        return next((tool for (known, _), tool in reversed(self.code.items()) if known == name), None)

    def forget_code(self, state: State) -> None:
        """Drops code that is neither mounted nor about to be."""
        wanted = {(spec.name, spec.digest) for spec in state.toolset.tools.values()}
        wanted |= {(spec.name, spec.digest) for change in state.toolset.staged for spec in change.tools}
        wanted |= {(spec.name, spec.digest) for specs in self.mounting.values() for spec in specs}
        for known in [known for known in self.code if known not in wanted]:
            del self.code[known]

    # --- hooks ---

    def lend(self, command_id: str, lent: Lent, state: State) -> None:
        """Keeps what a prompt brought until its run is over. Raises `Refused` if too many wait."""
        self._forget_hooks(state)
        if len(self.hooks) >= HOOKED_RUNS_MAX:
            raise Refused("too_many", f"{HOOKED_RUNS_MAX} prompts with hooks of their own wait already: wait for them")
        if lent.hooks:
            self.hooks[command_id] = lent.hooks
        if lent.model is not None:
            self.models[lent.model.info.name] = lent.model

    def _forget_hooks(self, state: State) -> None:
        waiting = {queued_input.command_id for queued_input in state.queue.inputs.values()}
        run = state.run if state.active or state.run.resumable or state.calls.by_id else None
        seen = self._hooked.get(run.first_run_id) if run is not None else None
        kept = {*waiting, *(run.commands if run is not None else ()), *(seen[0] if seen is not None else ())}
        self.hooks = {name: hooks for name, hooks in self.hooks.items() if name in kept}
        self._hooked = {run.first_run_id: seen} if run is not None and seen is not None else {}

    def hooks_of(self, state: State, base: HookRunner) -> HookRunner:
        """The agent's hooks with those of the current run, and of the runs that it continues."""
        run = state.run
        before = self._hooked.get(run.first_run_id)
        names = frozenset(name for name in run.commands if name in self.hooks)
        if before is not None:
            names |= before[0]
            if names == before[0]:
                return before[1]
        if not names:
            return base
        joined = base.joined(hook for name, hooks in self.hooks.items() if name in names for hook in hooks)
        self._hooked[run.first_run_id] = (names, joined)
        return joined


def weighed(tool: AnyTool) -> ToolSpec:
    """A tool as the kernel knows it, with what its schema weighs in a request. Made once for each tool: all sessions of
    an agent begin with the same ones."""
    spec = _weighed.get(tool)
    if spec is None:
        weight = estimate_json(msgspec.to_builtins(tool.schema))
        spec = _weighed[tool] = msgspec.structs.replace(tool.spec, tokens=weight)
    return spec


_weighed: weakref.WeakKeyDictionary[AnyTool, ToolSpec] = weakref.WeakKeyDictionary()


def client_tool(spec: ToolSpec, text: ToolText, source: str) -> AnyTool:
    """A tool that a client declared and will run. Raises `Refused` for one that no model could be offered."""
    options = Options(
        name=spec.name,
        description=text.description,
        parameters=text.parameters,
        contract=spec.contract,
        timeout_ms=spec.timeout_ms,
        traits=spec.traits,
        kind=spec.kind,
        labels=spec.labels,
        alias=spec.alias,
        exclusive=spec.exclusive,
        deferred=spec.deferred,
        settle=spec.settle,
        source=source,
        runs="client",
    )
    try:
        if text.parameters.get("type", "object") != "object":
            raise UsageError(f"tool {spec.name!r}: its parameters must be a JSON Schema of an object")
        made: AnyTool = Tool(None, options)
        made.validator.errors({})
    except UsageError as error:
        raise Refused("malformed", str(error)) from error
    except Exception as error:  # a schema from outside may be anything, and must not stop the session that reads it
        told = f"the schema of tool {spec.name!r} cannot be read ({type(error).__name__})"
        raise Refused("malformed", told) from error
    return made
