"""The generated pages are what the code says now, and the check for it can fail."""

from __future__ import annotations

import re

import pytest
from dev import api_page, declared, docs, glossary, setting_words, settings_page, value_words, vocabulary
from dev.site import links

import windlass
from windlass.cli import reference
from windlass.events.base import name_of
from windlass.events.live import LIVE_EVENTS
from windlass.events.stored.registry import EVENTS, PLANNED


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
    monkeypatch.setattr(links, "complaints", lambda root: [])
    monkeypatch.setattr(docs, "stale", lambda: ["docs/events.md"])
    assert docs.main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/events.md is stale: run 'python dev/docs.py' and commit what it writes\n"
    monkeypatch.setattr(docs, "stale", list)
    assert docs.main(["--check"]) == 0


def test_every_event_has_its_own_entry():
    headings = re.findall(r"^#{3,4} `([^`]+)`$", docs.pages()["docs/events.md"], flags=re.MULTILINE)
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


# --- settings and public names ---

UNREAD = "WINDLASS" + "_FOREVER"
"""In two pieces, since tests are looked through for variables too."""


def test_every_setting_and_public_name_says_what_it_means():
    assert docs.silent() == []


@pytest.mark.parametrize("place", ["open.lease_ms", "Timeouts.idle", "tool.settle", "ModelSettings.seed"])
def test_a_setting_without_a_sentence_is_named(monkeypatch, place):
    monkeypatch.delitem(setting_words.WORDS, place)
    assert docs.silent() == [f"{place} has no sentence: write one below it, or into dev/setting_words.py"]


def test_a_field_without_a_string_below_it_is_named(monkeypatch):
    monkeypatch.setattr(declared, "_notes", lambda module: {})
    told = docs.silent()
    for place in ("Settings.queue_max", "Budget.usd", "Agent.mode", "Rule.when"):
        assert f"{place} has no sentence: write one below it, or into dev/setting_words.py" in told


@pytest.mark.parametrize("place", ["Result.text", "Deny.stop"])
def test_a_field_of_a_public_value_without_a_sentence_is_named(monkeypatch, place):
    monkeypatch.delitem(setting_words.WORDS, place)
    assert docs.silent() == [f"windlass.{place} has no sentence: see dev/setting_words.py"]


def test_a_method_without_a_docstring_is_named(monkeypatch):
    monkeypatch.setattr(windlass.Session.wait_idle, "__doc__", None)
    assert docs.silent() == ["windlass.Session.wait_idle has no docstring"]


def test_a_public_name_without_a_group_is_named(monkeypatch):
    monkeypatch.setitem(api_page.GROUPS, "Agents", ("Agent", "Budget", "Settings"))
    assert docs.silent() == ["windlass.Result is in no group of dev/api_page.py"]


def test_words_about_nothing_are_named(monkeypatch):
    monkeypatch.setitem(setting_words.WORDS, "Timeouts.forever", "seconds without end")
    monkeypatch.setitem(setting_words.VARIABLES, UNREAD, "nothing reads it")
    assert docs.silent() == [
        "dev/setting_words.py speaks of Timeouts.forever, which is not there",
        f"dev/setting_words.py speaks of {UNREAD}, which nothing reads",
    ]


def test_a_variable_without_a_sentence_is_named(monkeypatch):
    without = {name: says for name, says in setting_words.VARIABLES.items() if name != "WINDLASS_CACHE"}
    monkeypatch.setattr(setting_words, "VARIABLES", without)  # a key put back into a table would be its last
    assert docs.silent() == ["WINDLASS_CACHE has no sentence: write one into dev/setting_words.py"]


def test_a_flag_without_help_is_named(monkeypatch):
    page = reference.cli_page().replace("| `--yes` | remove them; without it nothing is changed |", "| `--yes` |  |")
    monkeypatch.setattr(reference, "cli_page", lambda: page)
    assert docs.silent() == ["--yes of the command line has no help"]


def test_settings_show_their_words_and_defaults_as_a_reader_writes_them():
    page = settings_page.render()
    assert '| `on_busy` | `"enqueue" \\| "steer" \\| "interrupt" \\| "reject"` | `"enqueue"` |' in page
    assert "| `lease_ms` | `int` | `15_000` |" in page
    assert "| `budget` | `Budget` | `Budget()` |" in page


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        (True, "True"),
        (512, "512"),
        (600_000, "600_000"),
        ("full", '"full"'),
        ((), "()"),
        (0.5, "0.5"),
        (windlass.Policy(), "Policy()"),
    ],
)
def test_a_default_is_shown_as_it_is_written(value, shown):
    assert declared.default_text(value) == shown


def test_a_default_with_an_address_is_refused():
    with pytest.raises(ValueError, match="cannot be shown on a page"):
        declared.default_text(object())
