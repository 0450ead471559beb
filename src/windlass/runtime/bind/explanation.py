"""What would become of a call, and why: judged as a session judges it, with nothing asked, run or recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from windlass.events.turns import Prepared, Touched
from windlass.events.values.access import SandboxTerms
from windlass.events.values.blocks import JsonObject
from windlass.events.values.specs import Rule, ToolSpec
from windlass.kernel.parts.tools import gate, labels
from windlass.kernel.state import State
from windlass.runtime.trees.specialists import spawning_of
from windlass.tools.description import CallPlace, Description, described
from windlass.tools.files.exclusion import exclusion_of
from windlass.tools.tool import AnyTool

from .policy_conditions import judged

ARGS_CHARS_MAX = 500


def looked_at(
    state: State,
    tool: AnyTool,
    args: JsonObject,
    place: CallPlace,
    about: Description | None = None,
    *,
    sandbox: SandboxTerms | None = None,
) -> Prepared:
    """What the host finds out about a call before the gate. `about` is its description, if that was had already;
    `sandbox` is where it would run, if all that it does happens there."""
    checked = tool.check(args)
    if checked.errors:
        return Prepared(digest=checked.digest, errors=checked.errors)
    if about is None:
        about = described(tool, checked.args, place)
    matched, unjudged = judged(state, tool.spec, checked.args, about, sandbox)
    prepared = Prepared(
        digest=checked.digest,
        matched=matched,
        unjudged=unjudged,
        excluded=about.excluded or (None if _knows_its_root(tool) else excluded_path(about, place)),
        subject=about.subject,
        detail=about.detail,
        labels=about.labels,
        traits=about.traits,
        exact=about.exact,
        touched=Touched(paths=about.paths, writes=about.writes, hosts=about.hosts, commands=about.commands),
        confined=sandbox is not None and sandbox.confines,
        sandbox=sandbox,
        unclear=about.unclear,
        sensitive=about.sensitive,
        basis=about.basis,
        spawning=spawning_of(tool.spec, checked.args),
    )
    if about.futile is not None and gate.verdict_on(state, tool.spec, prepared)[0] == "asked":
        return Prepared(digest=checked.digest, errors=(about.futile,))
    return prepared


def _knows_its_root(tool: AnyTool) -> bool:
    """Whether a tool is one of the file tools: they judge by their own root what is excluded, and folders above it do
    not count."""
    return tool.spec.source == "builtin" and tool.spec.kind in ("read", "write")


def excluded_path(about: Description, place: CallPlace) -> str | None:
    """Why a call must not be made that touches what no model may see, whichever tool it is of."""
    exclusion = exclusion_of(place.exclude) if place.exclude else None
    if exclusion is None:
        return None
    found = (exclusion.covering(path, about.root or place.folder) for path in (*about.paths, *about.writes))
    pattern = next((pattern for pattern in found if pattern is not None), None)
    return None if pattern is None else f"the policy excludes {pattern!r}: no model may see what is there"


def explained(
    state: State, tool: AnyTool, args: JsonObject, place: CallPlace, *, sandbox: SandboxTerms | None = None
) -> str:
    """The verdict on a call in a state, the line that gives it, and what every rule about the tool says of it."""
    prepared = looked_at(state, tool, args, place, sandbox=sandbox)
    action, why = gate.verdict_on(state, tool.spec, prepared)
    shown = json.dumps(args, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= ARGS_CHARS_MAX else shown[:ARGS_CHARS_MAX] + " …"
    return "\n".join([f"{tool.name} {shown}: {action} ({why})", *_said(state, tool.spec, prepared)])


def _said(state: State, spec: ToolSpec, prepared: Prepared) -> Iterator[str]:
    if prepared.errors:
        return
    if joins := labels.joins(state, spec, prepared.labels, prepared.traits):
        yield f"  untrusted input, private data and a way out: {labels.chain(state, joins, spec, prepared.traits)}"
    for index, rule in enumerate(state.gate.policy.rules):
        if gate.speaks_of(rule, spec):
            yield f"  {gate.describe(rule)}{_reason(rule)}: {_outcome(state, rule, index, spec, prepared)}"


def _outcome(state: State, rule: Rule, index: int, spec: ToolSpec, prepared: Prepared) -> str:
    held = gate.holds(state, rule, index, spec, prepared)
    if held is None:
        return "cannot be judged, so it is asked about"
    if not held and not prepared.exact and rule.action == "allow" and gate.is_conditional(rule):
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
        found: AnyTool = given[tool]
        return found
    try:
        return tools_of([tool])[0]
    except UsageError:
        names = ", ".join(dict.fromkeys(one.name for one in given.values()))
        raise UsageError(
            f"no tool {tool!r} to judge a call of{f': there are {names}' if names else ''}; give the tool itself"
        ) from None
