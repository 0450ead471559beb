"""Every rule of the four formats by its id, with what it rests on. The rules of a profile are cited in its `why`."""

from __future__ import annotations

from .anthropic_sources import ANTHROPIC, CLAUDE
from .citation_kinds import Rule, rule
from .gemini_sources import GEMINI, GENERATE_CONTENT
from .openai_sources import CHAT, CHAT_COMPLETIONS, OPENAI_RESPONSES, RESPONSES
from .profiles import PROFILES

HTTP = {
    "method": rule("a path has one method", CLAUDE + "api/messages", CHAT, RESPONSES, GEMINI + "api/generate-content"),
    "body": rule("the body is a JSON object", CLAUDE + "api/errors", CHAT, RESPONSES, GEMINI + "api/generate-content"),
    "types": rule(
        "values have the types of the reference",
        "ours: a value that the checks trip over has a type no reference names",
    ),
}

RULES: dict[str, Rule] = {
    f"{part}.{name}": cited_rule
    for part, rules in (
        ("http", HTTP),
        ("anthropic", ANTHROPIC),
        ("openai", CHAT_COMPLETIONS),
        ("responses", OPENAI_RESPONSES),
        ("gemini", GENERATE_CONTENT),
    )
    for name, cited_rule in rules.items()
}


def cites(rule_id: str) -> tuple[str, ...]:
    """What the rule of that id rests on; raises KeyError for an id that no rule has."""
    part, _, name = rule_id.partition(".")
    if part == "profile":
        return (PROFILES[name].why,)
    return RULES[rule_id].cites
