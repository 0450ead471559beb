"""The generated pages are what the code says now, and the check for it can fail."""

from __future__ import annotations

import re

import pytest
from dev import docs, glossary, value_words, vocabulary

from windlass.events.base import name_of
from windlass.events.live import LIVE_EVENTS
from windlass.events.registry import EVENTS, PLANNED


def test_generated_pages_are_fresh():
    assert docs.stale() == [], f"run '{docs.REGENERATE}' and commit what it writes"


def test_a_stale_page_is_named_and_written_again(tmp_path):
    assert sorted(docs.write(tmp_path)) == sorted(docs.pages())
    assert docs.stale(tmp_path) == []
    page = tmp_path / "docs" / "events.md"
    page.write_text(page.read_text(encoding="utf-8").replace("tool.finished", "tool.ended"), encoding="utf-8")
    assert docs.stale(tmp_path) == ["docs/events.md"]
    assert docs.write(tmp_path) == ["docs/events.md"]
    assert docs.write(tmp_path) == []


def test_the_check_says_how_to_regenerate(monkeypatch, capsys):
    monkeypatch.setattr(docs, "stale", lambda: ["docs/events.md"])
    assert docs.main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/events.md is stale: run 'python dev/docs.py' and commit what it writes\n"
    monkeypatch.setattr(docs, "stale", list)
    assert docs.main(["--check"]) == 0


def test_every_event_has_its_own_entry():
    headings = re.findall(r"^#### `([^`]+)`$", docs.pages()["docs/events.md"], flags=re.MULTILINE)
    live = {str(cls.__struct_config__.tag) for cls in LIVE_EVENTS}
    for name in {name_of(cls) for cls in EVENTS} | live:
        assert headings.count(name) == 1, name
    assert not set(PLANNED) & set(headings)


@pytest.mark.parametrize("cls", [*EVENTS, *LIVE_EVENTS], ids=lambda cls: cls.__name__)
def test_every_event_and_every_field_says_what_it_means(cls):
    assert cls.__doc__, f"{cls.__name__} has no docstring"
    silent = [
        field.name
        for field in vocabulary.fields(cls)
        if not (field.note or glossary.words(field.owner, field.name, shared=True))
    ]
    assert not silent, f"write a sentence below {silent} in {cls.__name__}, or add it to dev/glossary.py"


def test_the_glossary_speaks_only_of_fields_that_exist():
    declared = [*EVENTS, *LIVE_EVENTS, *vocabulary.reachable()]
    known = {f"{field.owner}.{field.name}" for cls in declared for field in vocabulary.fields(cls)}
    bare = {place.partition(".")[2] for place in known}
    assert {word for word in glossary.WORDS if word not in known | bare} == set()
    assert set(value_words.VALUE_WORDS) - known == set()
