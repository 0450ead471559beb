"""What the host finds out about a call before the gate: checked, described, held against what its policy says.

Nothing is run or asked. What a call touches is said by its tool; a call that cannot be judged carries errors
and is denied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.turns import Prepared, Touched
from windlass.events.values.access import SandboxTerms
from windlass.events.values.blocks import JsonObject
from windlass.events.values.tools import RUN_WORKFLOW
from windlass.kernel.parts.machines.machine_tools import MACHINE_TOOLS
from windlass.kernel.parts.tools import verdicts
from windlass.kernel.parts.tools.policy_rules import runs_in_sandbox, unseen_by
from windlass.kernel.parts.tools.rule_sessions import rules_here
from windlass.kernel.state import State
from windlass.runtime.trees.specialists import spawning_of
from windlass.tools.canonical_json import digest
from windlass.tools.description import CallPlace, Description, described, described_aside
from windlass.tools.files.exclusion import exclusion_of
from windlass.tools.sandboxes.sandbox import Sandbox
from windlass.tools.tool import AnyTool

from .policy_conditions import judged
from .sandbox_terms import terms_of, unhidden

if TYPE_CHECKING:
    from .bound_agent import Bound


def looks_aside(bound: Bound, state: State, name: str) -> bool:
    """Whether a call of a tool is looked at by itself and not with the reply: it is described in a thread, or its
    sandbox must be asked what it confines."""
    tool = bound.tool(state, name)
    return tool is not None and (tool.options.describe_in_thread or runs_in_sandbox(tool.spec))


async def prepared_aside(
    bound: Bound,
    state: State,
    name: str,
    args: JsonObject | None,
    text: str | None,
    sandbox: Sandbox | None = None,
) -> Prepared:
    """What the host finds out about a call before the gate, with what its tool reads for that, and what its
    sandbox says if all that the tool does happens there."""
    tool, about, terms = bound.tool(state, name), None, None
    checked = tool.check(args if args is not None else {}) if tool is not None else None
    if tool is None or checked is None or checked.errors:
        return prepared_call(bound, state, name, args, text)
    if tool.options.describe_in_thread:
        about = await described_aside(tool, checked.args, bound.place(state))
    if sandbox is not None and runs_in_sandbox(tool.spec):
        about = about or described(tool, checked.args, bound.place(state))
        terms, problem = await terms_of(sandbox, about)
        if problem is not None:
            return Prepared(digest=checked.digest, errors=(problem,))
        globs = unseen_by(rules_here(state), tool.spec)
        why = await unhidden(sandbox, bound.place(state).folder, globs) if about.unclear is None else None
        about = msgspec.structs.replace(about, unclear=why) if why is not None else about
    return prepared_call(bound, state, name, args, text, about, sandbox=terms)


def prepared_call(
    bound: Bound,
    state: State,
    name: str,
    args: JsonObject | None,
    text: str | None,
    about: Description | None = None,
    *,
    sandbox: SandboxTerms | None = None,
) -> Prepared:
    """What the host finds out about a call before the gate. `sandbox` is where it would run."""
    tool = bound.tool(state, name)
    if tool is None:
        return Prepared(digest=digest(args if args is not None else text))
    given: JsonObject = args if args is not None else {}
    try:
        if name in MACHINE_TOOLS and tool.spec.runs == "kernel" and (wrong := _machine_call(state, name, given)):
            return Prepared(digest=digest(given), errors=wrong)
        if name == RUN_WORKFLOW and tool.spec.runs == "child" and (wrong := _workflow_call(bound, given)):
            return Prepared(digest=digest(given), errors=wrong)
        return looked_at(state, tool, given, bound.place(state), about, sandbox=sandbox)
    except (Exception, SystemExit) as error:  # code of the tool's author: a call that cannot be judged does not run
        return Prepared(digest="", errors=(f"the call cannot be checked ({type(error).__name__}: {error})",))


def _machine_call(state: State, name: str, args: JsonObject) -> tuple[str, ...]:
    from windlass.runtime.machines.call_checks import wrong_with

    return wrong_with(state, name, args)


def _workflow_call(bound: Bound, args: JsonObject) -> tuple[str, ...]:
    from windlass.runtime.flows.authored import wrong_with

    return wrong_with(bound.agent, args)


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
    if about.futile is not None and verdicts.verdict_on(state, tool.spec, prepared)[0] == "asked":
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
    patterns = (exclusion.covering(path, about.root or place.folder) for path in (*about.paths, *about.writes))
    pattern = next((pattern for pattern in patterns if pattern is not None), None)
    return None if pattern is None else f"the policy excludes {pattern!r}: no model may see what is there"
