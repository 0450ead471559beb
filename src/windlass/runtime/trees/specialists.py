"""Specialists: the agents that an agent may have its child sessions run by, and the tool that starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.isolation import Isolation
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.setup import Limits, SessionOptions, Spawning
from windlass.events.values.tools import RUN_WORKFLOW, ToolSpec
from windlass.kernel.parts.flows import node_graph
from windlass.kernel.parts.trees import child_shares
from windlass.runtime.bind.builtin_tools import READ_PARENT
from windlass.runtime.workspace import git
from windlass.tools.tool import AnyTool, Options, Tool

if TYPE_CHECKING:
    from windlass.events.values.blocks import JsonObject
    from windlass.kernel.effects import StartChild
    from windlass.kernel.state import State
    from windlass.runtime.api.agent import Agent
    from windlass.runtime.workspace.folder import Folder

SPAWN = "spawn"
READING = ("explore", "plan", "verify")
"""Roles whose child sessions only read."""
LOOKING = ("read", "list", "glob", "grep")
ROLE_TOOLS: dict[str, tuple[str, ...]] = {
    "explore": LOOKING,
    "plan": LOOKING,
    "verify": LOOKING,
    "orchestrate": LOOKING,
    "implement": (*LOOKING, "write", "edit", "shell"),
}
"""What a specialist has if no tools are given to it."""
ROLE_ISOLATION: dict[str, Isolation] = {
    "explore": "read_only",
    "plan": "read_only",
    "verify": "read_only",
    "implement": "worktree",
}
"""How a specialist is kept apart if nobody says so; the others share their parent's folder."""
STRICT = ("allow", "standard", "ask", "deny")
READ_ONLY = Rule(action="deny", traits=("write", "execute"), name="read_only", reason="its role only reads")


def spawn_tool(agents: Sequence[Agent]) -> AnyTool:
    """The tool by which a model, or a person, has a specialist carry out a task in a child session."""
    named = [agent.name for agent in agents]
    if len(set(named)) != len(named):
        raise UsageError(f"two specialists have the same name: {', '.join(sorted(named))}")
    shown = "\n".join(f"- {agent.name}: {agent.description or agent.role}" for agent in agents)
    options = Options(
        name=SPAWN,
        description="Have a specialist carry out a task in a session of its own, which sees nothing but the task. The "
        "result is its answer; in the background you go on and are told of its end.\n" + shown,
        parameters=parameters(named),
        runs="child",
        contract="idempotent",
    )
    return Tool(None, options)


def parameters(names: list[str]) -> dict[str, Any]:
    count = {"type": "integer", "minimum": 1}
    return {
        "type": "object",
        "properties": {
            "agent": {"type": "string", "enum": names, "description": "Which specialist."},
            "task": {"type": "string", "minLength": 1, "description": "All that it needs to know."},
            "mode": {"type": "string", "enum": ["foreground", "background", "detached"]},
            "context": {
                "type": "string",
                "enum": ["fresh", "forked", "shared_read"],
                "description": "forked: it begins with what you saw. shared_read: it can look that up, and what comes.",
            },
            "isolation": {
                "type": "string",
                "enum": ["worktree", "read_only"],
                "description": "worktree: its changes are made on a branch of their own first.",
            },
            "limits": {
                "type": "object",
                "properties": dict.fromkeys(("tokens", "cost_nanos", "turns", "calls", "children"), count),
                "additionalProperties": False,
                "description": "What it may use at the most.",
            },
        },
        "required": ["agent", "task"],
        "additionalProperties": False,
    }


def spawning_of(spec: ToolSpec, args: JsonObject) -> Spawning | None:
    """What a call says about the child session that it starts; None if it starts none of ours."""
    if spec.runs != "child" or spec.name not in (SPAWN, RUN_WORKFLOW):
        return None
    if spec.name == RUN_WORKFLOW:
        return Spawning(agent=RUN_WORKFLOW, mode=args.get("mode", "foreground"))
    limits = args.get("limits")
    return Spawning(
        agent=str(args["agent"]),
        mode=args.get("mode", "foreground"),
        context=args.get("context", "fresh"),
        limits=known_types.convert(limits, Limits) if limits is not None else None,
        isolation=args.get("isolation"),
    )


def isolation_of(agent: Agent, folder: Folder | None) -> Isolation | None:
    """How a specialist is kept apart: as its author says, else as its role does. A worktree that only the role wants is
    left out if there is no repository."""
    if agent.isolation is not None:
        return agent.isolation
    wanted = ROLE_ISOLATION.get(agent.role)
    return None if wanted == "worktree" and repository_of(folder) is None else wanted


def repository_of(folder: Folder | None) -> str | None:
    """The top of the repository that a folder lies in."""
    repository = git.find(folder.path)[0] if folder is not None else None
    return repository.root if repository is not None else None


def inherited(state: State, agent: Agent, effect: StartChild, isolation: Isolation) -> SessionOptions:
    """What a child session has otherwise than its agent says: all that its parent may not do either, and its slice. The
    parent's settings bound how deep those below it may go too, whatever the settings of the child's agent say."""
    deepest = Limits(depth=state.setup.settings.children_depth_max)
    return SessionOptions(
        policy=narrowed(
            agent.policy, state.gate.policy, reads=agent.role in READING, locked=node_graph.locks(state.flow)
        ),
        limits=child_shares.narrower(effect.slice, deepest),
        mode="plan" if state.setup.mode == "plan" else None,
        quarantine=effect.quarantine,
        sandbox=state.setup.options.sandbox,
        isolation=isolation if isolation != "shared" else None,
        unattended=state.unattended,
        tools=(READ_PARENT,) if effect.context == "shared_read" else (),
    )


def narrowed(
    own: Policy, parent: Policy, *, reads: bool = False, locked: Mapping[str, str] = MappingProxyType({})
) -> Policy:
    """The policy of a child: its own, with whatever its parent denies or asks about, and the stricter of both in all
    that no rule speaks of. What its parent allows is not allowed by that. `locked` are tools that a phase of the
    workflow has yet to unlock."""
    stricter = [msgspec.structs.replace(rule, missing_ok=True) for rule in parent.rules if rule.action != "allow"]
    more = [READ_ONLY] if reads else []
    for tool, phase in locked.items():
        why = f"it is locked until the phase {phase!r} of the workflow has passed"
        more.append(Rule(action="deny", tool=tool, name="locked", reason=why, missing_ok=True))
    return msgspec.structs.replace(
        own,
        rules=(*own.rules, *stricter, *more),
        default=max(own.default, parent.default, key=STRICT.index),
        exclude=tuple(dict.fromkeys((*own.exclude, *parent.exclude))),
        exclude_patterns=tuple(dict.fromkeys((*own.exclude_patterns, *parent.exclude_patterns))),
        trifecta=max(own.trifecta, parent.trifecta, key=STRICT.index),
    )
