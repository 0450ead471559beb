"""What the rules of a policy say: which tools they speak of, what of a call they look at, and what they rest on.
Knows no session."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import msgspec

from windlass.events.tools.permissions import Changed
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.tools import ToolSpec

JUDGED_BY = (
    "paths", "writes", "hosts", "commands", "traits", "modes", "sources", "labels", "rate", "quota", "quota_per",
    "known_only", "confined", "roles", "trust",
)  # fmt: skip
"""What a rule may say beside tool, kinds and condition."""
NARROWED_BY = tuple(name for name in JUDGED_BY if name not in ("paths", "sources", "known_only"))
"""What leaves calls to which a rule about paths does not speak."""
PLAIN_DENIAL = Rule(action="deny")


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    # Each star takes as little as it can and never gives back, so that many of them cannot make a long name costly.
    first, *rest = ("".join("." if c == "?" else re.escape(c) for c in piece) for piece in glob.split("*"))
    between = "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece)
    return re.compile(first + between + (f".*{rest[-1]}" if rest else ""), re.DOTALL)


def matches(glob: str, name: str) -> bool:
    """Whether a name fits a glob of `*` and `?`. Case matters."""
    return _pattern(glob).fullmatch(name) is not None


def speaks_of(rule: Rule, spec: ToolSpec) -> bool:
    """Whether a rule is about a tool. A denial or a question reaches it by the name that models see as well; a
    permission does not, since whoever mounts a tool chooses that name."""
    if rule.kinds and spec.kind not in rule.kinds:
        return False
    if rule.sources and not any(matches(glob, spec.source) for glob in rule.sources):
        return False
    if matches(rule.tool, spec.name):
        return True
    return rule.action != "allow" and spec.alias is not None and matches(rule.tool, spec.alias)


def reads_only(spec: ToolSpec) -> bool:
    """Whether a tool says that it changes nothing: this is what plan mode lets pass."""
    if spec.runs == "kernel":
        return True
    return spec.contract == "pure" and not set(spec.traits) - {"read"}


def leaves_files(spec: ToolSpec) -> bool:
    """Whether a tool says that it changes no files: this is what a child that works read-only may call. What a child of
    it does is held to the same."""
    if reads_only(spec) or spec.runs == "child":
        return True
    return bool(spec.traits) and not set(spec.traits) - {"read", "egress"}


def unseen_by(policy: Policy, spec: ToolSpec) -> tuple[str, ...]:
    """Globs of what calls of a tool must not see, whichever way they come to it: what no model may see, and paths that
    a rule denies to the tool whatever else holds."""
    globs = [*policy.exclude]
    for rule in policy.rules:
        if rule.action == "deny" and rule.paths and speaks_of(rule, spec) and _denies_whatever_holds(rule):
            globs += rule.paths
    return tuple(dict.fromkeys(globs)) if globs else ()


def _denies_whatever_holds(rule: Rule) -> bool:
    return rule.when is None and all(getattr(rule, name) == getattr(PLAIN_DENIAL, name) for name in NARROWED_BY)


def runs_in_sandbox(spec: ToolSpec) -> bool:
    """Whether all that a tool does happens in the session's sandbox: the built-in tools that run commands. What an
    author's own tool does, nobody can say."""
    return spec.source == "builtin" and spec.kind == "shell" and spec.runs == "host"


def is_conditional(rule: Rule) -> bool:
    """Whether the host must look at a call to say whether a rule holds."""
    return rule.when is not None or bool(rule.paths or rule.writes or rule.hosts or rule.commands)


def tool_digest(spec: ToolSpec) -> str:
    """The digest of what a tool does and takes, how it may be repeated and what it touches; prose is not part of it."""
    rests_on = (spec.name, spec.code or spec.digest, spec.schema, spec.contract, *_traits(spec))
    return hashlib.blake2b(msgspec.json.encode(rests_on), digest_size=12).hexdigest()


def _traits(spec: ToolSpec) -> tuple[object, ...]:
    return (spec.traits, spec.kind, spec.labels, spec.source, spec.runs)


def differences(before: ToolSpec | None, now: ToolSpec) -> tuple[Changed, ...]:
    """What of a tool matters to a verdict and is another one now."""
    if before is None:
        return ("code",)
    told_apart = bool(before.code and now.code)
    comparisons: list[tuple[Changed, bool]] = [
        ("code", before.code != now.code if told_apart else before.digest != now.digest),
        ("schema", told_apart and before.schema != now.schema),
        ("contract", before.contract != now.contract),
        ("traits", _traits(before) != _traits(now)),
    ]
    return tuple(what for what, differs in comparisons if differs)


def rules_of(policy: Policy, spec: ToolSpec) -> tuple[object, ...]:
    """The lines of a policy that judge a tool, without what they are called; what holds if none of them does; and what
    nobody may see, whoever agrees."""
    lines = [(rule.action, rule.tool, rule.kinds, rule.when, *_more(rule)) for rule in _about(policy, spec)]
    excluded = [("exclude", *sorted(policy.exclude))] if policy.exclude else []
    together = [("trifecta", policy.trifecta)] if policy.trifecta != "ask" else []
    return (policy.default, *lines, *excluded, *together, *_judged_for(policy, spec))


def _judged_for(policy: Policy, spec: ToolSpec) -> list[object]:
    """Whose session is judged, if a rule about the tool asks for that."""
    about = _about(policy, spec)
    by_role = any(rule.roles or "role" in (rule.when or "") for rule in about)
    by_trust = any(rule.trust or "trusted" in (rule.when or "") for rule in about)
    return [*([("role", policy.role)] if by_role else []), *([("trusted", policy.trusted)] if by_trust else [])]


def _about(policy: Policy, spec: ToolSpec) -> list[Rule]:
    return [rule for rule in policy.rules if speaks_of(rule, spec)]


def _more(rule: Rule) -> list[object]:
    """What else a rule says, by the names of its fields: older rules are digested as they always were."""
    plain = Rule(action=rule.action)
    said = ((name, getattr(rule, name)) for name in JUDGED_BY)
    return [(name, value) for name, value in said if value != getattr(plain, name)]


def rules_digest(policy: Policy, spec: ToolSpec) -> str:
    """The digest of the lines of a policy that judge a tool."""
    return hashlib.blake2b(msgspec.json.encode(rules_of(policy, spec)), digest_size=12).hexdigest()
