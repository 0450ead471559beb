"""The rules of a policy in words, as people are told them."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.values.policy import Rule, Trust

TRUST: dict[Trust, str] = {
    "trusted": "the folder is trusted",
    "untrusted": "the folder is not trusted",
    "quarantined": "the session is quarantined",
}


def describe(rule: Rule) -> str:
    """A rule in words."""
    return " ".join([rule.action, rule.tool, *_conditions(rule)])


def _conditions(rule: Rule) -> Iterator[str]:
    """What a rule asks of a call beside its tool, in words."""
    lists = (
        ("of kind", rule.kinds), ("from", rule.sources), ("that does", rule.traits), ("in mode", rule.modes),
        ("on", rule.paths), ("writing", rule.writes), ("to", rule.hosts), ("running", rule.commands),
        ("with label", rule.labels),
    )  # fmt: skip
    for relation, given in lists:
        if given:
            yield f"{relation} {', '.join(given)}"
    if rule.roles:
        yield f"in sessions of {', '.join(rule.roles)}"
    if rule.trust:
        yield f"where {' or '.join(TRUST[word] for word in rule.trust)}"
    if rule.known_only:
        yield "as far as is known"
    if rule.confined:
        yield "in a sandbox"
    if rule.when:
        yield f"when {rule.when}"
    bound = "at most" if rule.action == "allow" else "after"
    if rule.rate is not None:
        yield f"{bound} {rule.rate.calls} in {_time(rule.rate.per_ms)}"
    if rule.quota is not None:
        yield f"{bound} {rule.quota} in the {rule.quota_per}"


def _time(ms: int) -> str:
    for unit, size in (("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def condition(rule: Rule) -> str:
    """What of a rule could not be judged."""
    return rule.when if rule.when and len(list(_conditions(rule))) == 1 else " ".join(_conditions(rule))
