"""The table of Meerkat's rules names tests that exist; and the few rules that no other file speaks about."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import msgspec
import pytest
from dev import places
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.events import builders
from windlass.events.base import tag_of
from windlass.events.errors import CodecError
from windlass.events.runs import Terminal, WakeReceived
from windlass.events.stored import codec, record
from windlass.events.stored.registry import COMMANDS, EVENTS

HERE = Path(__file__).parent
ROW = re.compile(r"^\| (?P<number>[\d.]+) \| (?P<rule>.+?) \| (?P<held>.+) \|$", re.MULTILINE)
RULES = 60


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer((HERE / "MEERKAT_RULES.md").read_text(encoding="utf-8")))


def test_every_rule_names_tests_that_exist_or_says_why_it_has_none():
    existing = {
        node.name
        for path in [
            *HERE.glob("test_*.py"),
            *HERE.parent.glob("coverage/test_*.py"),
            *HERE.parent.glob("skills/test_*.py"),
        ]
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert len(rows()) == RULES
    for row in rows():
        named = set(re.findall(r"\btest_\w+", row["held"]))
        assert named <= existing, f"{row['number']}: no test {sorted(named - existing)}"
        assert named or row["held"].startswith("not here: "), f"{row['number']}: name a test, or say why not"


def test_rules_are_numbered_once():
    numbers = [row["number"] for row in rows()]
    assert len(set(numbers)) == len(numbers)


def test_order_is_by_seq_and_never_by_clock():
    """A clock that steps back, even before 1970, neither breaks the log nor reorders it."""
    prev, lines = record.GENESIS, []
    for number, at_ms in enumerate([1_700_000_000_000, 5, -3, 2**63], start=1):
        event = WakeReceived(command_id=f"k{number}")
        sealed = codec.encode([event], prev_hash=prev, seq=number, at_ms=at_ms, epoch=1, salt=builders.salt)
        lines.append(sealed)
        prev = sealed.hash
    for number, line in enumerate(lines, start=1):
        record.check(line.data, prev_hash=line.prev_hash, expected_seq=number)
    assert [codec.decode(line.data).at_ms for line in lines] == [1_700_000_000_000, 5, -3, 2**63]


@pytest.mark.parametrize("cls", Terminal.__subclasses__(), ids=tag_of)
def test_a_terminal_says_why_the_run_stopped(cls):
    skeleton, _ = builders.parts(builders.minimal(cls))
    del skeleton["stop"]
    with pytest.raises(CodecError, match="missing required field `stop`"):
        codec.decode(builders.line(skeleton))


def test_a_change_of_tools_has_these_operations_and_phases():
    assert {"add", "remove", "reload"} <= set(get_args(places.find("toolset.changed#operation")))
    phases = {"pending", "applied", "draining", "forced", "failed"}
    assert set(get_args(places.find("toolset.changed#phase"))) == phases


def schema_of(kind: Any) -> jsonschema_rs.Validator:
    """A validator of what msgspec exports for a type."""
    return jsonschema_rs.validator_for(msgspec.json.schema(kind, schema_hook=_free))


def _free(kind: type) -> dict[str, Any]:
    assert kind is object, f"{kind} has no schema"
    return {"description": "any JSON"}


@pytest.mark.parametrize("cls", EVENTS, ids=tag_of)
@given(data=st.data())
@settings(max_examples=5)
def test_the_exported_schema_takes_what_the_codec_takes(cls, data):
    """And refuses a word, a number and a gap that the codec refuses."""
    validator = schema_of(cls)
    event = data.draw(builders.events(cls))
    skeleton, _ = builders.parts(event)
    assert validator.is_valid(skeleton), list(validator.iter_errors(skeleton))
    for name in builders.parts(builders.minimal(cls))[0]:
        assert not validator.is_valid({key: value for key, value in skeleton.items() if key != name})


def test_there_is_one_schema_of_all_commands():
    validator = schema_of(codec.AnyCommand)
    for cls in COMMANDS:
        assert validator.is_valid(builders.parts(builders.minimal(cls))[0])
    assert not validator.is_valid({"type": "tool.finished", "call_id": "c1.0"})
    assert not validator.is_valid({"type": "prompt.received", "command_id": "k", "behavior": "sideways"})
