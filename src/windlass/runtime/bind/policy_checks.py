"""Whether a policy says something: every glob, host, command, expression and number of it is one.

A policy that cannot be read must not come to hold, so whoever makes one has it checked here first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.policy import Policy, Rate, Rule
from windlass.kernel.parts.tools.rule_limits import RATE_CALLS_MAX

from .policy_patterns import LISTED_MAX, command_pattern, host_pattern, path_glob

RULES_MAX = 500
SHOWN_CHARS_MAX = 80
WANTED: dict[Any, str] = {
    str: "a text",
    int: "a whole number above 0",
    bool: "true or false",
    Rate: "a rate such as '10/minute'",
}
"""How the types of fields are called in what is said of wrong ones."""
UNITS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
SHORT = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
RATE = re.compile(r"\s*(\d{1,6})\s*(?:/|per)\s*(\d{0,6})\s*([a-z]+)\s*")
LISTS = (
    "kinds", "paths", "writes", "hosts", "commands", "traits", "modes", "sources", "labels", "roles", "trust",
)  # fmt: skip
"""The fields of a rule that hold several things."""
PATTERNS: dict[str, Callable[[str], object]] = {
    "paths": path_glob,
    "writes": path_glob,
    "hosts": host_pattern,
    "commands": command_pattern,
}


class WrongRule(UsageError):
    """A rule that says nothing, with the field that is wrong."""

    def __init__(self, field: str, told: str, *, whole: bool = False) -> None:
        super().__init__(told if whole or not field else f"{field}: {told}")
        self.field = field


def rate_of(text: str) -> Rate:
    """A rate as people write it: `10/minute`, `3 per 30s`. Raises `UsageError` for what is none."""
    match = RATE.fullmatch(text.lower())
    unit = None if match is None else SHORT.get(match[3]) or UNITS.get(match[3].removesuffix("s"))
    if match is None or unit is None or not int(match[1]) or match[2] == "0":
        raise UsageError(f"{text!r} is no rate: write '10/minute', '100/hour' or '3/30s'")
    return Rate(calls=int(match[1]), per_ms=int(match[2] or 1) * unit)


def rule_from(given: dict[str, Any]) -> Rule:
    """A rule from its fields, lists and single texts taken for tuples. Raises `WrongRule` for one that says nothing."""
    rule = Rule(**{name: _field(name, value) for name, value in given.items()})
    check_rule(rule)
    return rule


def _field(name: str, value: Any) -> Any:
    """One field of a rule. Raises `WrongRule` if its value is none."""
    if name in LISTS:
        value = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else value
    if name == "rate" and isinstance(value, str):
        try:
            return rate_of(value)
        except UsageError as error:
            raise WrongRule("rate", str(error)) from None
    return _typed(name, value)


def wrong_fields(given: dict[str, Any]) -> list[WrongRule]:
    """All that is wrong with the fields of a rule, each field looked at by itself."""
    problems = []
    for name, value in given.items():
        if name not in HINTS:
            known = ", ".join(HINTS)
            problems.append(WrongRule(name, f"unknown key {name!r} in a rule: there are {known}", whole=True))
            continue
        try:
            rule = Rule(**{"action": "deny", name: _field(name, value)})
        except WrongRule as error:
            problems.append(error)
        else:
            problems += [WrongRule(field, told) for field, told in wrong_in(rule)]
    return problems


def _typed(name: str, value: Any) -> Any:
    """A field's value as its type. Raises `WrongRule` if it is none."""
    kind = HINTS.get(name)
    if kind is None:
        raise WrongRule(name, f"rules have no such field: there are {', '.join(HINTS)}")
    try:
        return value_of(value, kind)
    except ValueError as error:
        raise WrongRule(name, str(error)) from None


def value_of(value: Any, kind: Any) -> Any:
    """A value as a type. Raises `ValueError` in words for people, with what may stand there."""
    try:
        return known_types.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError):
        raise ValueError(_no_value(value, kind)) from None


def _no_value(value: Any, kind: Any) -> str:
    """Why a value is none of its kind: the words that may stand there, or what is wanted instead."""
    kinds = [inner for inner in (get_args(kind) or (kind,)) if inner not in (type(None), ...)]
    words = [word for inner in (kind, *kinds) for word in get_args(inner) if isinstance(word, str)]
    if words:
        listed = value if isinstance(value, list | tuple) else [value]
        wrong = [one for one in listed if one not in words] or listed
        return f"{', '.join(map(_shown, wrong))} is none of {', '.join(words)}"
    if get_origin(kind) is tuple:
        return f"a list of texts is wanted, not {_shown(value)}"
    wanted = next((WANTED[inner] for inner in map(_plain_type, kinds) if inner in WANTED), "something else")
    return f"{wanted} is wanted, not {_shown(value)}"


def _plain_type(kind: Any) -> Any:
    """The type beneath what is said of it, such as its bounds."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


HINTS: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Rule)}


def check_rule(rule: Rule) -> None:
    """Raises `WrongRule` for a rule that could never be judged."""
    for name, told in wrong_in(rule):
        raise WrongRule(name, told)


def wrong_in(rule: Rule) -> Iterator[tuple[str, str]]:
    """What is wrong with a rule, field by field."""
    for name in LISTS:
        if len(getattr(rule, name)) > LISTED_MAX:
            yield name, f"at most {LISTED_MAX} in one rule: use wider ones, or two rules"
    for name, make in PATTERNS.items():
        for text in getattr(rule, name)[:LISTED_MAX]:
            try:
                make(text)
            except UsageError as error:
                yield name, str(error)
    if rule.when is not None:
        from .cel_expressions import Expression

        try:
            Expression.of(rule.when)
        except UsageError as error:
            yield "when", str(error)
    if rule.rate is not None and rule.rate.calls > RATE_CALLS_MAX:
        yield "rate", f"at most {RATE_CALLS_MAX} calls in a rate: use a shorter time"
    if not rule.tool:
        yield "tool", "name a tool, or '*' for all"


def check_policy(policy: Policy) -> None:
    """Raises `UsageError` for a policy that could never be judged as it is meant."""
    if len(policy.rules) > RULES_MAX:
        raise UsageError(f"a policy of {len(policy.rules)} rules: at most {RULES_MAX}")
    for index, rule in enumerate(policy.rules):
        try:
            check_rule(rule)
        except WrongRule as error:
            raise UsageError(f"rule {index + 1} ({rule.name or rule.action + ' ' + rule.tool}): {error}") from None
    if policy.exclude:
        from windlass.tools.files.exclusion import check_patterns

        check_patterns(policy.exclude)
    if policy.exclude_patterns:
        from windlass.tools.planes.withheld_content import check_content_patterns

        check_content_patterns(policy.exclude_patterns)
