"""The vocabulary is closed: every event is listed once, its name is frozen, and its shape keeps the house rules."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from dev import freeze, vocabulary
from msgspec import inspect as mi

import windlass
from tests.events import builders
from windlass.events.base import Command, Decision, Event, Fact, name_of, plain_name, tag_of
from windlass.events.live import LIVE_EVENTS, Live
from windlass.events.stored.registry import BY_TAG, COMMANDS, DECISIONS, EVENTS, FACTS, PLANNED

HERE = Path(__file__).parent
NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
TAG = re.compile(NAME.pattern + r"(?:@(?:[2-9]|[1-9][0-9]+))?\??")
WORD = re.compile(r"[a-z][a-z0-9_]*")

EVERY_EVENT = pytest.mark.parametrize("cls", EVENTS, ids=tag_of)


def declared(base: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """The subclasses that carry a tag of their own, in the package."""
    found = set()
    for cls in base.__subclasses__():
        found |= declared(cls)
        if isinstance(cls.__struct_config__.tag, str) and "." in cls.__struct_config__.tag:
            found.add(cls)
    return {cls for cls in found if cls.__module__.startswith("windlass.events.")}


@pytest.mark.parametrize(("name", "text"), [("names.txt", freeze.names()), ("defaults.txt", freeze.defaults())])
def test_names_and_defaults_are_frozen(name, text):
    """A changed tag or default changes what old logs mean: add a field with a default, or a new tag, instead."""
    assert (HERE / name).read_text(encoding="utf-8") == text, "meant? then run 'python dev/docs.py' and commit"


def test_every_event_that_is_declared_is_listed_once():
    assert declared(Event) == set(EVENTS)
    assert declared(Live) == set(LIVE_EVENTS)
    assert Counter(EVENTS).most_common(1)[0][1] == 1
    assert len(BY_TAG) == len(EVENTS)


def test_every_list_holds_its_own_kind():
    assert all(issubclass(cls, Fact) and cls.ROLE == "fact" for cls in FACTS)
    assert all(issubclass(cls, Decision) and cls.ROLE == "decision" for cls in DECISIONS)
    assert set(COMMANDS) == {cls for cls in FACTS if issubclass(cls, Command)}


def test_one_name_means_one_thing():
    names = Counter([name_of(cls) for cls in EVENTS] + [str(cls.__struct_config__.tag) for cls in LIVE_EVENTS])
    assert names.most_common(1)[0][1] == 1, "two events, or two versions of one, share a name"
    assert not set(names) & {plain_name(tag) for tag in PLANNED}, "what is declared is not planned any more"


def test_tags_keep_their_grammar():
    assert [tag for tag in BY_TAG if not TAG.fullmatch(tag)] == []
    others = [*PLANNED, *(str(cls.__struct_config__.tag) for cls in LIVE_EVENTS)]
    assert [tag for tag in others if not NAME.fullmatch(tag)] == []


def test_planned_events_say_which_part_brings_them():
    assert [tag for tag, note in PLANNED.items() if not re.fullmatch(r"[A-Za-z ]+: .+", note)] == []


@EVERY_EVENT
def test_an_event_is_a_frozen_value_that_belongs_to_a_category(cls):
    config = cls.__struct_config__
    assert config.frozen
    assert config.omit_defaults
    assert not config.forbid_unknown_fields
    assert cls.CATEGORY in ("syscall", "sched", "mm", "proc", "ipc")


@EVERY_EVENT
def test_content_is_always_optional_and_a_value_of_its_own(cls):
    """So that it can be erased, and a fold can do without it."""
    if "body" in cls.__struct_fields__:
        field = next(field for field in msgspec.structs.fields(cls) if field.name == "body")
        assert field.default is None
        assert vocabulary.body_class(cls) is not None


@EVERY_EVENT
def test_ids_say_of_what_and_units_come_last(cls):
    assert "id" not in cls.__struct_fields__
    assert [
        name for name in cls.__struct_fields__ if re.search(r"_(sec|secs|seconds|millis)$|timestamp|^time$", name)
    ] == []


def test_all_closed_words_are_snake_case():
    found = {
        (cls.__name__, field.name, word)
        for cls in [*EVENTS, *LIVE_EVENTS, *vocabulary.reachable()]
        for field in builders.info(cls).fields
        for kind in _literals(field.type)
        for word in kind.values
    }
    assert len(found) > 200
    assert [place for place in found if not WORD.fullmatch(str(place[2]))] == []


def _literals(kind: mi.Type) -> list[mi.LiteralType]:
    match kind:
        case mi.LiteralType():
            return [kind]
        case mi.UnionType(types=types):
            return [found for inner in types for found in _literals(inner)]
        case mi.VarTupleType(item_type=item):
            return _literals(item)
    return []


def test_every_value_inside_an_event_ignores_what_it_does_not_know():
    assert [cls.__name__ for cls in vocabulary.reachable() if cls.__struct_config__.forbid_unknown_fields] == []


def test_every_class_says_what_it_means():
    silent = [cls.__name__ for cls in [*EVENTS, *LIVE_EVENTS, *vocabulary.reachable()] if not cls.__doc__]
    assert silent == []


SAID_FROM_OUTSIDE = {  # computed on reading, or chosen by whoever writes a tool or sends a command
    *("Category", "PermissionKind", "Trait", "OnBusy", "Behavior", "Auth", "Attend", "Misfire", "Overlap", "Role"),
}


@pytest.mark.parametrize("alias", sorted(set(vocabulary.closed_words()) - SAID_FROM_OUTSIDE))
def test_every_word_is_produced_somewhere(alias):
    """A word that nothing says yet is declared when something says it, not before."""
    package = Path(windlass.__file__).parent
    sources = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in ("testing", "cli")]
    said = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    spoken = re.sub(rf"^{alias} = Literal\[.*?^\]|^{alias} = Literal\[.*?\]$", "", said, flags=re.DOTALL | re.MULTILINE)
    assert [word for word in vocabulary.closed_words()[alias][1] if f'"{word}"' not in spoken] == []
