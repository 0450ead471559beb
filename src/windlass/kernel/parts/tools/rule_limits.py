"""Rates and quotas: how many calls a rule with a limit has let pass, and whether that is enough."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from windlass.events.turns import Prepared
from windlass.events.values.policy import Rule
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools import policy_rules, verdicts

if TYPE_CHECKING:
    from windlass.kernel.state import State

RATE_CALLS_MAX = 256
"""How many calls a rate may count."""
COUNTED_RULES_MAX = 256


class Count(msgspec.Struct, kw_only=True, gc=False):
    """The calls that passed and that a rule with a limit spoke of."""

    session: int = 0
    run: int = 0
    times_ms: list[int] = []
    """When the last of them passed."""


def count(counts: dict[str, Count], rules: tuple[str, ...], now_ms: int) -> None:
    """A call has passed that these rules with a limit speak of."""
    for key in rules:
        here = counts.setdefault(key, Count())
        here.session += 1
        here.run += 1
        here.times_ms = [*here.times_ms, now_ms][-RATE_CALLS_MAX:]
    while len(counts) > COUNTED_RULES_MAX:
        del counts[next(iter(counts))]


def count_run_anew(counts: dict[str, Count]) -> None:
    """Another run begins: what is counted in a run begins with it."""
    for here in counts.values():
        here.run = 0


def within_limits(state: State, rule: Rule) -> bool:
    """Whether a rule's rate and quota let it hold: a permission until they are used up, the others from then on."""
    if rule.rate is None and rule.quota is None:
        return True
    here = state.gate.counts.get(rule_key(rule)) or Count()
    made = here.run if rule.quota_per == "run" else here.session
    used_up = rule.quota is not None and made >= rule.quota
    if rule.rate is not None:
        since = state.now_ms - rule.rate.per_ms
        used_up = used_up or sum(at_ms > since for at_ms in here.times_ms) >= rule.rate.calls
    return not used_up if rule.action == "allow" else used_up


def counted(state: State, spec: ToolSpec, prepared: Prepared) -> tuple[str, ...]:
    """The rules with a limit that count a call if it passes."""
    limited = [(i, rule) for i, rule in enumerate(state.gate.policy.rules) if rule.rate is not None or rule.quota]
    return tuple(
        rule_key(rule)
        for i, rule in limited
        if policy_rules.speaks_of(rule, spec) and verdicts.holds_but_for_limits(state, rule, i, spec, prepared)
    )


@lru_cache(maxsize=1024)
def rule_key(rule: Rule) -> str:
    """What the calls of a rule with a limit are counted under; a rule that says something else begins anew."""
    return hashlib.blake2b(msgspec.json.encode(rule), digest_size=8).hexdigest()
