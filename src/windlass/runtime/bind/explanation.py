"""What would become of a call, and why: judged as a session judges it, with nothing asked, run or recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from windlass.events.turns import Prepared
from windlass.events.values.access import SandboxTerms
from windlass.events.values.blocks import JsonObject
from windlass.events.values.policy import Rule
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools import labels, policy_rules, rule_words, verdicts
from windlass.kernel.state import State
from windlass.tools.description import CallPlace
from windlass.tools.tool import AnyTool

from .prepared_calls import looked_at

ARGS_CHARS_MAX = 500


def explained(
    state: State, tool: AnyTool, args: JsonObject, place: CallPlace, *, sandbox: SandboxTerms | None = None
) -> str:
    """The verdict on a call in a state, the line that gives it, and what every rule about the tool says of it."""
    prepared = looked_at(state, tool, args, place, sandbox=sandbox)
    action, why = verdicts.verdict_on(state, tool.spec, prepared)
    shown = json.dumps(args, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= ARGS_CHARS_MAX else shown[:ARGS_CHARS_MAX] + " …"
    return "\n".join([f"{tool.name} {shown}: {action} ({why})", *_said(state, tool.spec, prepared)])


def _said(state: State, spec: ToolSpec, prepared: Prepared) -> Iterator[str]:
    if prepared.errors:
        return
    if joins := labels.joins(state, spec, prepared.labels, prepared.traits):
        yield f"  untrusted input, private data and a way out: {labels.chain(state, joins, spec, prepared.traits)}"
    for index, rule in enumerate(state.gate.policy.rules):
        if policy_rules.speaks_of(rule, spec):
            yield f"  {rule_words.describe(rule)}{_reason(rule)}: {_outcome(state, rule, index, spec, prepared)}"


def _outcome(state: State, rule: Rule, index: int, spec: ToolSpec, prepared: Prepared) -> str:
    held = verdicts.holds(state, rule, index, spec, prepared)
    if held is None:
        return "cannot be judged, so it is asked about"
    if not held and not prepared.exact and rule.action == "allow" and policy_rules.is_conditional(rule):
        return "does not hold (not all that the call touches is known)"
    return "holds" if held else "does not hold"


def _reason(rule: Rule) -> str:
    return f" ({rule.reason})" if rule.reason else ""


def tool_meant(tools: Any, tool: Any) -> AnyTool:
    """The tool that is meant: one itself, a function, or the name of one of those given or of a built-in one."""
    from windlass.events.errors import UsageError

    from .mounted_tools import tools_of

    if not isinstance(tool, str):
        return tools_of([tool])[0]
    given = {name: one for one in tools for name in (one.name, one.model_name)}
    if tool in given:
        given_tool: AnyTool = given[tool]
        return given_tool
    try:
        return tools_of([tool])[0]
    except UsageError:
        names = ", ".join(dict.fromkeys(one.name for one in given.values()))
        raise UsageError(
            f"no tool {tool!r} to judge a call of{f': there are {names}' if names else ''}; give the tool itself"
        ) from None
