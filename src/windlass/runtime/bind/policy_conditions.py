"""Conditions of policies: what rules say about a call and its arguments, judged here so that the kernel need not.

The kernel learns only which rules held and which could not be judged; the latter are asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.turns import Prepared
from windlass.events.values.access import Access, SandboxTerms
from windlass.events.values.blocks import JsonObject
from windlass.events.values.policy import Rule
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools.policy_rules import is_conditional, speaks_of
from windlass.kernel.parts.tools.rule_sessions import is_root
from windlass.kernel.state import State
from windlass.tools.description import Description

from .policy_patterns import bare_host, command_pattern, fit, fit_all, host_pattern, path_glob


def judged(
    state: State, spec: ToolSpec, args: JsonObject, about: Description, sandbox: SandboxTerms | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The rules with a condition that hold for a call, and those whose condition could not be judged."""
    rules = state.gate.policy.rules
    if not any(is_conditional(rule) for rule in rules):
        return (), ()
    variables = {"args": args, "session": _session(state), **_call(spec, about)}
    held: list[int] = []
    unjudged: list[int] = []
    for index, rule in enumerate(rules):
        if not is_conditional(rule) or not speaks_of(rule, spec):
            continue
        verdict = verdict_of(rule, variables, about, _folder(state), sandbox)
        if verdict is None:
            unjudged.append(index)
        elif verdict:
            held.append(index)
    return tuple(held), tuple(unjudged)


def verdict_of(
    rule: Rule,
    variables: dict[str, Any],
    about: Description,
    folder: str | None,
    sandbox: SandboxTerms | None = None,
) -> bool | None:
    """Whether a rule's conditions hold; None if that cannot be said. One that does not hold settles it."""
    held = rule.action == "allow" and sandbox is not None and sandbox.confines
    said = list(_facets(rule, about, folder, sandbox.access if held and sandbox is not None else None))
    if False in said:
        return False
    if rule.when is not None:
        said.append(evaluate(rule.when, variables))
    return False if False in said else None if None in said else True


def _facets(rule: Rule, about: Description, folder: str | None, access: Access | None = None) -> Iterator[bool | None]:
    """What each thing that a rule says about paths, hosts and commands comes to. `access` is all that a call can reach
    beside its folder, if a sandbox holds it to that: a permission need not guess then."""
    allow, exact = rule.action == "allow", about.exact and about.unclear is None
    judge = partial(fit, allow=allow, exact=exact, known=rule.known_only and not allow)
    for name, globs, touched_paths in (("paths", rule.paths, about.paths), ("writes", rule.writes, about.writes)):
        if globs:
            made = [path_glob(text) for text in globs]
            tests = [partial(g.allows if allow else g.denies, folder=folder) for g in made]
            if access is None:
                yield judge(touched_paths, tests)
            else:
                yield _paths_held(rule, about, name, tests, access)
    if rule.hosts:
        patterns = [host_pattern(text) for text in rule.hosts]
        if access is None:
            yield judge(about.hosts, patterns)
        else:
            named = [bare_host(host) for host in access.hosts]
            yield (bool(named) or rule.confined) and fit_all(named, patterns)
    if rule.commands:
        commands = [command_pattern(text) for text in rule.commands]
        # A redirection that writes a file is a line `> path`; a permission speaks of that as a write.
        lines = [line for line in about.commands if not (allow and line.startswith("> "))]
        yield judge(lines, [c.allows if allow else c.denies for c in commands])
        if allow and about.writes and not rule.writes:
            # The words of a command do not say where its output goes: that is a permission of its own.
            yield False


def _paths_held(
    rule: Rule, about: Description, name: str, tests: Sequence[Callable[[str], bool]], access: Access
) -> bool:
    """Whether a permission about paths fits a call that a sandbox holds to its folder and to what is opened for it. If
    not all that it touches is known, it may be anything in the folder; what it may read beside is never known then."""
    opened = access.writable if name == "writes" else (*access.writable, *access.readable)
    touched = about.writes if name == "writes" else about.paths
    if about.exact and about.unclear is None:
        return (bool(touched) or rule.confined) and fit_all((*touched, *opened), tests)
    whole_folder = name == "writes" and bool(set(rule.writes) & WHOLE_FOLDER)
    return rule.confined and whole_folder and fit_all(opened, tests)


Tests = Sequence[Callable[[str], bool]]
WHOLE_FOLDER = frozenset({"**", "**/*"})


def about_call(prepared: Prepared) -> Description:
    """What was recorded of a call, as its tool said it. What older logs do not say is not known."""
    touched = prepared.touched
    return Description(
        subject=prepared.subject,
        detail=prepared.detail,
        paths=touched.paths if touched is not None else (),
        writes=touched.writes if touched is not None else (),
        hosts=touched.hosts if touched is not None else (),
        commands=touched.commands if touched is not None else (),
        traits=prepared.traits,
        exact=prepared.exact and touched is not None,
        labels=prepared.labels,
        excluded=prepared.excluded,
        unclear=prepared.unclear,
    )


def _folder(state: State) -> str | None:
    return state.workspace.folder.cwd if state.workspace.folder is not None else None


def _session(state: State) -> dict[str, Any]:
    """What conditions see as `session`. What an older log does not say of it is missing, so that nothing is judged by
    it."""
    setup, policy = state.setup, state.gate.policy
    recorded = {"role": policy.role, "trusted": policy.trusted}
    return {
        **{name: value for name, value in recorded.items() if value is not None},
        "root": is_root(state),
        "quarantined": state.labels.quarantined,
        "id": state.session_id,
        "agent": setup.agent.name,
        "mode": setup.mode,
        "metadata": dict(setup.metadata),
        "folder": _folder(state) or "",
    }


def _call(spec: ToolSpec, about: Description) -> dict[str, Any]:
    """What conditions see as `call`; nothing for a call that nobody can describe, so that they cannot be judged."""
    if about.unclear is not None:
        return {}
    seen = {
        "paths": list(about.paths),
        "writes": list(about.writes),
        "hosts": list(about.hosts),
        "commands": list(about.commands),
        "labels": [*spec.labels, *about.labels],
        "traits": list(spec.traits if about.traits is None else about.traits),
        "exact": about.exact,
    }
    return {"call": {"tool": spec.name, "kind": spec.kind, "subject": about.subject or "", **seen}}


def evaluate(expression: str, variables: dict[str, Any]) -> bool | None:
    """Whether an expression holds; None if it cannot be said, also because it cannot be read."""
    from .cel_expressions import Expression

    try:
        return Expression.of(expression).holds(variables)
    except UsageError:
        return None
