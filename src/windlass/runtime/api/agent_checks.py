"""What an agent is given, checked when it is made: a wrong value is named then, not when a session is half begun."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.isolation import STRICTER, AtEnd
from windlass.events.values.items import ModelSettings
from windlass.events.values.policy import Policy, Role, WorkMode
from windlass.events.values.settings import Settings

if TYPE_CHECKING:
    from .agent import Agent

NAME_CHARS_MAX = 100
NAMES_SHOWN_MAX = 20
NOT_IN_NAMES = "/\\\0\n"


NEEDED = ("tokens", "turns", "seconds")
"""Limits without which not even one request can be made."""


def check_number(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    """Raises `UsageError` for a limit that is no number to count to."""
    if value is None:
        return
    number: Any = value
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise UsageError(f"budget {name}={value!r}: give a {'whole ' if float not in kinds else ''}number, or None")
    if not math.isfinite(number) or number < 0:
        raise UsageError(f"budget {name}={value!r}: give a number of at least 0, or None for no limit")
    if number == 0 and name in NEEDED:
        raise UsageError(f"budget {name}={value!r}: nothing could be done with that; give more, or None for no limit")


def check_agent(agent: Agent) -> None:
    """Raises `UsageError` for the first thing about an agent that no session could run by."""
    name = agent.name
    if not _is_text(name) or not name or len(name) > NAME_CHARS_MAX or any(c in name for c in NOT_IN_NAMES):
        raise UsageError(f"agent name {name!r}: give 1 to 100 characters without slashes or line breaks")
    where = f"agent {name!r}"
    if not _is_text(agent.instructions):
        raise UsageError(f"{where}: instructions are a text in valid Unicode, not {_short(agent.instructions)}")
    _check_model(where, agent.model)
    for field in ("tools", "knowledge", "hooks"):
        _check_list(where, field, getattr(agent, field))
    if not all(_is_text(text) for text in agent.knowledge):
        raise UsageError(f"{where}: knowledge is a list of texts in valid Unicode")
    _check_hooks(where, agent.hooks)
    _check_specialists(where, agent)
    if agent.approver is not None and not callable(agent.approver):
        raise UsageError(f"{where}: an approver is a function, not {_short(agent.approver)}")
    if agent.skills is not None:
        _ = agent.skills_config
    if agent.mcp is not None:
        _ = agent.mcp_config
    if agent.machine is not None:
        from windlass.runtime.machines.machine import machine_given

        machine_given(agent.machine)
    _check_values(where, agent)
    _check_rules(where, agent)


def _check_rules(where: str, agent: Agent) -> None:
    """A denial or a question that names a tool which is not there would let pass what it was meant for. A glob speaks
    of a family of tools, which may be empty; `Session.setup` lists those that are."""
    named = [
        rule
        for rule in agent.policy.rules
        if rule.action != "allow" and not set(rule.tool) & {"*", "?"} and not rule.missing_ok
    ]
    if not named:
        return
    names = list(dict.fromkeys(name for tool in agent.toolset for name in (tool.name, tool.model_name)))
    asks = _asked_of_servers(agent)
    for rule in named:
        if rule.tool in asks and (not rule.kinds or "mcp" in rule.kinds):
            continue
        if rule.tool not in names:
            raise UsageError(
                f"{where}: the rule {rule.action}({rule.tool!r}) matches none of its tools{_meant(rule.tool, names)}: "
                f"correct the name, or say missing_ok=True if the tool comes later or belongs to another agent"
            )
        kinds = [tool.options.kind for tool in agent.toolset if rule.tool in (tool.name, tool.model_name)]
        if rule.kinds and not set(rule.kinds) & set(kinds):
            raise UsageError(
                f"{where}: the rule {rule.action}({rule.tool!r}, kinds={rule.kinds!r}) matches none of its tools: "
                f"{rule.tool!r} is of kind {kinds[0]!r}; leave kinds= out, or say missing_ok=True"
            )


def _asked_of_servers(agent: Agent) -> list[str]:
    """What rules call that which the agent's MCP servers may ask; they are no tools."""
    config = agent.mcp_config
    if config is None:
        return []
    from windlass.runtime.mcp.asking_rules import ASKABLE, asked_as

    return [asked_as(server, what).name for server in config.servers for what in ASKABLE]


def _meant(given: str, names: list[str]) -> str:
    """The tool that a wrong name was perhaps meant for, else all of them."""
    import difflib

    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(given.casefold(), folded, n=1)
    if near:
        return f" (did you mean {folded[near[0]]!r}?)"
    shown = ", ".join(names[:NAMES_SHOWN_MAX]) + (" …" if len(names) > NAMES_SHOWN_MAX else "")
    return f" ({shown or 'it has none'})"


def _check_values(where: str, agent: Agent) -> None:
    from .agent import Budget

    _fitting(f"{where}: policy", agent.policy, Policy)
    if agent.policy != Policy():
        from windlass.runtime.bind.policy_checks import check_policy

        check_policy(agent.policy)
    _fitting(f"{where}: settings", agent.settings, Settings)
    _fitting(f"{where}: model_settings", agent.model_settings, ModelSettings)
    for field in ("budget", "session_budget"):
        if not isinstance(getattr(agent, field), Budget):
            raise UsageError(f"{where}: {field} is a Budget, not {_short(getattr(agent, field))}")
    try:
        known_types.convert(agent.mode, WorkMode)
    except msgspec.ValidationError:
        raise UsageError(f"{where}: mode {agent.mode!r} is none of interactive, plan and autopilot") from None
    _check_role(where, agent.role)
    _check_isolation(where, agent)


def _check_role(where: str, role: Any) -> None:
    """Raises `UsageError` for a role that there is not: with it would go what the role forbids."""
    roles = list(get_args(Role))
    if role not in roles:
        meant = _meant(role, roles) if isinstance(role, str) else f" ({', '.join(roles)})"
        raise UsageError(f"{where}: there is no role {role!r}{meant}")


def _check_isolation(where: str, agent: Agent) -> None:
    """Raises `UsageError` for a way of keeping children apart that there is not."""
    if agent.isolation not in (None, *STRICTER):
        raise UsageError(f"{where}: isolation {agent.isolation!r} is none of {', '.join(STRICTER)}")
    if agent.at_end not in get_args(AtEnd):
        raise UsageError(f"{where}: at_end {agent.at_end!r} is none of {', '.join(get_args(AtEnd))}")
    if agent.flow is not None and agent.isolation == "worktree":
        raise UsageError(f"{where}: a workflow works where it is started: give its specialists the worktrees")


def _check_model(where: str, model: Any) -> None:
    if model is None or isinstance(model, str):
        return
    if isinstance(model, type) or not hasattr(model, "stream") or not hasattr(model, "info"):
        raise UsageError(f"{where}: a model is a name such as 'openai/gpt-5-mini' or a Model, not {_short(model)}")


def _check_list(where: str, field: str, given: Any) -> None:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise UsageError(f"{where}: {field} is a list, not {_short(given)}: write {field}=[...]")


def _check_hooks(where: str, hooks: Sequence[Any]) -> None:
    if not hooks:
        return
    from windlass.runtime.hooks.hook import Hook

    for hook in hooks:
        if not isinstance(hook, Hook):
            raise UsageError(f"{where}: {_short(hook)} is no hook: write Hook(point=..., run=...)")


def _check_specialists(where: str, agent: Agent) -> None:
    _check_list(where, "agents", agent.agents)
    for one in agent.agents:
        if not isinstance(one, type(agent)):
            raise UsageError(f"{where}: {_short(one)} in agents is no Agent: give the agent itself, not its name")


def _fitting(where: str, value: Any, kind: Any) -> None:
    """Values are not checked when they are made; this is where a wrong one would first matter."""
    if not isinstance(value, kind):
        raise UsageError(f"{where} is a {kind.__name__}, not {_short(value)}")
    try:
        known_types.convert(msgspec.to_builtins(value, enc_hook=repr), kind)
    except msgspec.ValidationError as error:
        from windlass.tools.types.wrong_fields import wrong_field

        raise UsageError(f"{where}: {wrong_field(error, kind)}") from None
    except UnicodeError as error:
        raise UsageError(f"{where}: {error}") from None


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]} …"
