"""Policies out of files, TOML or YAML: data alone, within bounds, and everything that is wrong is said with its line.

Nothing of a file is run. A file that was read is protected from then on: no file tool of this process writes it."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Literal

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.policy import Policy, Rule

from .policy_checks import RULES_MAX, WrongRule, rule_from, value_of, wrong_fields
from .policy_source import Source, toml_source, yaml_source

FILE_BYTES_MAX = 256 * 1024
PROBLEMS_MAX = 20
SUFFIXES = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class PolicyFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a policy file may say beside its rules."""

    preset: str | None = None
    """A ready-made policy whose rules hold too, and whose default does unless there is one here."""
    default: Literal["standard", "allow", "ask", "deny"] | None = None
    exclude: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    trifecta: Literal["ask", "deny", "allow"] = "ask"


KEYS = {field.name: field.type for field in msgspec.structs.fields(PolicyFile)}


class BadPolicyFile(UsageError):
    """A policy file that cannot be taken: what is wrong, each with its line."""

    def __init__(self, problems: list[str]) -> None:
        more = len(problems) - PROBLEMS_MAX
        shown = problems[:PROBLEMS_MAX] + ([f"and {more} more"] if more > 0 else [])
        super().__init__("\n".join(shown))
        self.problems = tuple(problems)


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy of a TOML or YAML file. Raises `BadPolicyFile` with all that is wrong in it."""
    from windlass.tools.files.protected_names import PLACES

    name = os.fspath(path)
    PLACES.add(name, "it is the policy of an agent of this process")
    return policy_from(read_bounded(name), name)


def read_bounded(name: str) -> str:
    """The text of a policy file. Raises `UsageError` if it cannot be read as one."""
    if pathlib.PurePath(name).suffix.lower() not in SUFFIXES:
        raise UsageError(f"{name}: a policy file ends in {', '.join(SUFFIXES)}")
    try:
        with open(name, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(f"{name}: larger than {FILE_BYTES_MAX:,} bytes: a policy is a short list of rules")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}:{data[: error.start].count(10) + 1}: not text in UTF-8") from None


def policy_from(text: str, name: str) -> Policy:
    """The same of a text. `name` says which of the two languages it is in, and stands in front of what is wrong."""
    made = yaml_source if SUFFIXES.get(pathlib.PurePath(name).suffix.lower()) == "yaml" else toml_source
    source = made(text, name)
    problems: list[str] = []
    top = _top(source, problems)
    rules = _rules(source, problems)
    problems += _excluded(source, top)
    if problems:
        raise BadPolicyFile(sorted(problems, key=lambda told: _line(told, name)))
    return _policy(top, rules)


def _line(problem: str, name: str) -> int:
    """The line that a problem names, behind the name of its file."""
    return int(problem.removeprefix(f"{name}:").partition(":")[0])


def _top(source: Source, problems: list[str]) -> PolicyFile:
    """What stands at the top of a file; what cannot be taken is noted and left out."""
    given: dict[str, Any] = {}
    for key, value in source.values.items():
        if key == "rules":
            continue
        if key not in KEYS:
            problems.append(source.told((key,), f"unknown key {key!r}: there are {', '.join(('rules', *KEYS))}"))
            continue
        value = (value,) if isinstance(value, str) and key in ("exclude", "exclude_patterns") else value
        try:
            given[key] = value_of(value, KEYS[key])
        except ValueError as error:
            problems.append(source.told((key,), f"{key}: {error}"))
    if (preset := given.get("preset")) is not None and preset not in _presets():
        problems.append(source.told(("preset",), f"no preset {preset!r}: there are {', '.join(_presets())}"))
    return PolicyFile(**given)


def _rules(source: Source, problems: list[str]) -> list[Rule]:
    listed = source.values.get("rules", [])
    if not isinstance(listed, list):
        problems.append(source.told(("rules",), "rules: a list is wanted, [[rules]] in TOML or '- ' lines in YAML"))
        return []
    if len(listed) > RULES_MAX:
        problems.append(source.told(("rules",), f"rules: {len(listed)} of them, at most {RULES_MAX}"))
        return []
    made: list[Rule] = []
    for index, given in enumerate(listed):
        if not isinstance(given, dict):
            problems.append(source.told(("rules", index), "a rule is a table of fields, such as action and tool"))
            continue
        mistakes = [source.told(("rules", index, wrong.field), str(wrong)) for wrong in wrong_fields(given)]
        if "action" not in given:
            mistakes.append(source.told(("rules", index), "a rule needs an action: allow, ask or deny"))
        problems += mistakes or _made(source, index, given, made)
    return made


def _made(source: Source, index: int, given: dict[str, Any], made: list[Rule]) -> list[str]:
    """Adds the rule that sound fields make; what is wrong with it as a whole."""
    try:
        made.append(rule_from({"name": _name(given), **given}))
    except WrongRule as error:
        return [source.told(("rules", index, error.field), str(error))]
    return []


def _name(given: dict[str, Any]) -> str:
    return f"{given['action']} {given.get('tool', '*')}"


def _excluded(source: Source, top: PolicyFile) -> list[str]:
    """What is wrong with what no model may see."""
    from .policy_checks import check_policy

    problems = []
    for key in ("exclude", "exclude_patterns"):
        try:
            check_policy(Policy(**{key: getattr(top, key)}))
        except UsageError as error:
            problems.append(source.told((key,), str(error)))
    return problems


def _policy(top: PolicyFile, rules: list[Rule]) -> Policy:
    base = _presets()[top.preset] if top.preset is not None else Policy()
    return Policy(
        (*rules, *base.rules),
        default=top.default or base.default,
        exclude=(*top.exclude, *base.exclude),
        exclude_patterns=(*top.exclude_patterns, *base.exclude_patterns),
        trifecta=top.trifecta,
    )


def _presets() -> dict[str, Policy]:
    from windlass.runtime.api.policy import PRESETS

    return PRESETS
