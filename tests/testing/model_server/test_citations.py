"""Each refusal of the model server names a rule, and each rule says what it rests on."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.testing.model_server.test_rules import HELLO, QUIRKS, loaded
from windlass.testing import model_server
from windlass.testing.model_server import FORMATS, PROFILES, RULES, Format, cites, refusal
from windlass.testing.model_server.rules.citation_kinds import KINDS

SOURCE = pathlib.Path(model_server.__file__).parent
FILES = {"openai": "openai_chat", "responses": "openai_responses"}
FORMAT_FILES = {f"rules/{FILES.get(form, form)}": form for form in FORMATS}
OTHER_FILES = ("rules/every_format", "rules/verdict", "memory")
CHECKS = ("need", "typed", "known")
FAULTS_ONLY = "refusal_of"
"""Makes what a fault was told to say: no rule of a vendor."""

PAGE = re.compile(
    r"^(platform\.claude\.com/docs/en|developers\.openai\.com/api/docs|platform\.openai\.com/docs|help\.openai\.com/en"
    r"|ai\.google\.dev)/[\w/.#-]+$"
)
THREAD = re.compile(r"^([\w.-]+/[\w.-]+#\d+|community\.openai\.com/t/[\w/-]+)$")
CITED = [pytest.param(name, cite, id=f"{name} {cite}") for name, rule in RULES.items() for cite in rule.cites]


def calls_in(module: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls of plain names in a module, each with the function it stands in."""
    tree = ast.parse((SOURCE / f"{module}.py").read_text("utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                    yield function.name, call


def named_by(call: ast.Call, part: str) -> str | None:
    """The rule that a call names as a constant."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name in CHECKS and part:
        first = call.args[0]
        return f"{part}.{first.value!s}" if isinstance(first, ast.Constant) else None
    given = next((each.value for each in call.keywords if each.arg == "rule"), None)
    return str(given.value) if isinstance(given, ast.Constant) else None


def refusals() -> Iterator[tuple[str, str | None]]:
    """Every place at which a rule may refuse, with the rule it names."""
    for module in (*FORMAT_FILES, *OTHER_FILES):
        for function, call in calls_in(module):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if name in (*CHECKS, "WireRefused") and function != FAULTS_ONLY:
                yield f"{module}.py:{call.lineno}", named_by(call, FORMAT_FILES.get(module, ""))


def test_every_refusal_names_a_rule_that_is_cited():
    found = list(refusals())
    assert len(found) > 200
    assert [(place, rule) for place, rule in found if rule not in RULES] == []


def test_every_rule_is_used():
    assert RULES.keys() - {rule for _, rule in refusals()} == set()


@pytest.mark.parametrize(("name", "cite"), CITED)
def test_a_citation_is_of_its_kind(name: str, cite: str):
    kind, _, text = cite.partition(": ")
    assert kind in KINDS
    match kind:
        case "docs":
            assert PAGE.match(text)
        case "reported":
            assert THREAD.match(text)
        case "sdk":
            module, _, type_name = text.rpartition(".")
            assert hasattr(importlib.import_module(module), type_name)
        case _:
            assert len(text.split()) > 5, "say why, where nobody else does"


def test_most_rules_rest_on_something_that_can_be_looked_up():
    alone = {name for name, rule in RULES.items() if all(cite.startswith("ours: ") for cite in rule.cites)}
    assert alone == {
        "http.types",
        "anthropic.tool_choice_tools",
        "gemini.any_needs_tools",
        "gemini.call_id_unique",
    }


BROKEN = [pytest.param(f, case, id=f"{f}: {case['name']}") for f in FORMATS for case in loaded(f)["broken"]]


@pytest.mark.parametrize(("form", "case"), BROKEN)
def test_what_is_refused_can_be_looked_up(form: Format, case: dict[str, Any]):
    refused = refusal(form, case["body"], model="gemini-3-test" if form == "gemini" else "")
    assert refused is not None
    assert refused.rule.partition(".")[0] in (form, "http", "openai")
    assert cites(refused.rule)


@pytest.mark.parametrize(("profile", "without"), [(quirk[0], quirk[1]) for quirk in QUIRKS])
def test_what_a_profile_refuses_is_cited_by_the_profile(profile: str, without: dict[str, Any]):
    refused = refusal("openai", {"messages": HELLO, **without}, profile=profile)
    assert refused is not None
    assert refused.rule == f"profile.{profile}"
    assert cites(refused.rule) == (PROFILES[profile].why,)


def test_every_profile_says_why():
    assert [name for name, profile in PROFILES.items() if not profile.why] == []
