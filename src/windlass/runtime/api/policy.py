"""Policies in few words: rules by tool name, with conditions, and two presets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import msgspec

from windlass.events.values.policy import PermissionKind, Policy, Rate, Role, RoleMeant, Rule, Trait, Trust, WorkMode
from windlass.events.values.setup import Workspace
from windlass.runtime.bind.policy_checks import rule_from

if TYPE_CHECKING:
    from .agent import Agent

Action = Literal["allow", "ask", "deny"]


class Given(TypedDict, total=False):
    """What else a rule may say; `windlass.Rule` has the whole meaning of each."""

    when: str | None
    """A CEL expression over `args`, `call` and `session`; what it cannot judge is asked about."""
    reason: str
    """Why, for the model and for people."""
    name: str
    """What the log calls it; its action and tool if it has none."""
    kinds: Sequence[PermissionKind]
    """Only calls that need one of these kinds of permission."""
    paths: Sequence[str]
    """Globs over what a call touches."""
    writes: Sequence[str]
    """Globs over what it writes."""
    hosts: Sequence[str]
    """Whom it talks to: `example.org`, `*.example.org`."""
    commands: Sequence[str]
    """The first words of the commands that it runs: `git status`, `npm run *`."""
    traits: Sequence[Trait]
    """What it does: read, write, execute, egress."""
    modes: Sequence[WorkMode]
    """Only in these work modes."""
    sources: Sequence[str]
    """Only tools that come from there: `author`, `builtin`."""
    labels: Sequence[str]
    """Only if the session has seen something with one of these labels."""
    rate: str | Rate
    """So many calls in so much time: `10/minute`."""
    quota: int
    """So many calls in all."""
    quota_per: Literal["session", "run"]
    """What the quota is counted in."""
    known_only: bool
    """Whether a denial or a question holds by what is known of a call alone, and asks about nothing else."""
    confined: bool
    """Only calls that run in a sandbox which confines files and network."""
    roles: Sequence[RoleMeant]
    """Only in sessions of agents with one of these roles; `root` is any that no other session started."""
    trust: Sequence[Trust]
    """Only in sessions whose folder is `trusted`, or `untrusted`; or that are `quarantined`."""
    missing_ok: bool
    """Whether a denial or a question may name a tool that the agent does not have: it comes later, or the policy is
    shared by several agents."""


def _rule(action: Action, tool: str, given: Mapping[str, Any]) -> Rule:
    return rule_from({"action": action, "tool": tool, "name": f"{action} {tool}", **given})


def allow(tool: str = "*", **given: Unpack[Given]) -> Rule:
    """Lets calls of matching tools pass, if all that it says fits all that a call touches."""
    return _rule("allow", tool, given)


def ask(tool: str = "*", **given: Unpack[Given]) -> Rule:
    """Has a person asked before calls of matching tools. Beats `allow`."""
    return _rule("ask", tool, given)


def deny(tool: str = "*", **given: Unpack[Given]) -> Rule:
    """Refuses calls of matching tools. Beats everything."""
    return _rule("deny", tool, given)


ALLOW_ALL = Policy(default="allow")
"""Everything may be done without asking."""

READ_ONLY = Policy(rules=(Rule(action="allow", kinds=("read",), name="reading"),), default="deny")
"""Only reading."""


PROTECTED = (
    ".git", ".hg", ".svn", ".jj", ".gitmodules", ".gitattributes", ".windlass*", "windlass.*", "policy.toml",
    "policy.y*ml", ".env", ".env.*", ".envrc", ".mcp.json", "mcp.json", ".claude", ".codex", ".cursor", ".gemini",
    ".vscode", ".idea", ".husky", ".github", "AGENTS.md", "CLAUDE.md", ".pre-commit-config.yaml", ".ssh", ".npmrc",
)  # fmt: skip
"""Names that say what an agent may do, or that other programs run or obey: writing them is asked about."""

# What is not known of a call is left to the rules below and to the sandbox: nearly every command is not all known.
_PROTECTED = Rule(
    action="ask",
    writes=PROTECTED,
    known_only=True,
    name="protected names",
    reason="it says what an agent may do, or other programs obey it",
)
_READING = Rule(action="allow", kinds=("read",), name="reading")
_INSIDE = Rule(action="allow", kinds=("write",), writes=("**",), name="writing inside the workspace")

WORKSPACE_WRITE = Policy(rules=(_PROTECTED, _READING, _INSIDE), default="ask")
"""Reading is allowed, and writing inside the session's folder except for protected names; the rest is asked about."""

SANDBOXED = Policy(
    rules=(
        *WORKSPACE_WRITE.rules,
        Rule(action="allow", kinds=("shell",), confined=True, name="commands in the sandbox"),
    ),
    default="ask",
)
"""As `WORKSPACE_WRITE`, and commands run unasked if the session's sandbox confines files and network."""

PRESETS: dict[str, Policy] = {
    "standard": Policy(),
    "allow-all": ALLOW_ALL,
    "read-only": READ_ONLY,
    "workspace-write": WORKSPACE_WRITE,
    "sandboxed": SANDBOXED,
}
"""The policies that have a name on the command line and in policy files."""


def explain(
    policy: Policy | Agent,
    tool: Any = None,
    args: Mapping[str, Any] | None = None,
    *,
    mode: WorkMode | None = None,
    workspace: str | os.PathLike[str] | None = None,
    trusted: bool = False,
    role: Role | None = None,
) -> str:
    """A policy in words, in the order in which it is judged; of one call: what becomes of it, which line says so, and
    what each rule about its tool says.

    `policy` is one, or the agent whose policy, tools and mode are meant; `tool` a tool, a function, or a name among the
    agent's and the built-in tools; `workspace` the folder that paths are relative to, `trusted` or not. It is judged as
    in a session that nobody started, or, given a `role`, in one that another session started for an agent of that role.
    Nothing is asked, run or recorded, and no session is needed; `Session.explain` judges with what a session has, its
    standing approvals included."""
    rules = policy if isinstance(policy, Policy) else policy.policy
    if tool is None:
        return _in_words(rules)
    from windlass.kernel.state import State
    from windlass.runtime.bind.explanation import explained, tool_meant
    from windlass.tools.description import CallPlace

    tools = () if isinstance(policy, Policy) else policy.toolset
    state = State()
    own = "custom" if isinstance(policy, Policy) else policy.role
    state.gate.policy = msgspec.structs.replace(rules, role=role or own, trusted=trusted)
    state.depth = 0 if role is None else 1
    state.setup.mode = mode or ("interactive" if isinstance(policy, Policy) else policy.mode)
    folder = os.path.abspath(workspace) if workspace is not None else None
    state.workspace.folder = Workspace(cwd=folder) if folder is not None else None
    agent = "" if isinstance(policy, Policy) else policy.name
    place = CallPlace(session="", agent=agent, folder=folder, exclude=tuple(rules.exclude))
    return explained(state, tool_meant(tools, tool), dict(args or {}), place)


def _in_words(policy: Policy) -> str:
    from windlass.kernel.parts.tools.rule_words import describe

    lines = []
    for action in ("deny", "ask", "allow"):
        for rule in policy.rules:
            if rule.action == action:
                lines.append(describe(rule) + (f" ({rule.reason})" if rule.reason else ""))
    default = {
        "standard": "otherwise: the author's own tools and reading are allowed, everything else is asked about",
        "allow": "otherwise: allowed",
        "ask": "otherwise: asked about",
        "deny": "otherwise: denied",
    }[policy.default]
    return "\n".join([*lines, default])
