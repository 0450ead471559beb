"""How a command line is read: options anywhere among the words, errors that name the verb, limits that mean something."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest

from windlass.cli.main import build, main
from windlass.cli.reference import parser_of
from windlass.cli.verbs import VERBS

from .screens import Place, id_of
from .test_run import ran


def test_options_may_stand_between_the_words(place: Callable[[Place], pathlib.Path]):
    folder = place("made")
    request = id_of(folder, "march", "permission")
    done = ran(folder, "approve", "march", "--wait", "0", request)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"approved {request}: pay may run" in done.stdout


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("answer march --wait 0 yes both", {"session": "march", "words": ["yes", "both"], "wait": 0.0}),
        ("answer --wait 0 march --decline", {"session": "march", "words": [], "decline": True}),
        ("run Pay --session s it --quiet now", {"prompt": ["Pay", "it", "now"], "session": "s", "quiet": True}),
        ("diff a --json b", {"session": "a", "other": "b", "json": True}),
        ("deny a --feedback --not-now p1", None),
        ("deny a --feedback=--not-now p1", {"request": "p1", "feedback": "--not-now"}),
        ("settle a --wait 1 c1 --text x happened", {"session": "a", "wait": 1.0}),
        ("models --json pull embedded", {"json": True, "what": "embedded"}),
    ],
)
def test_words_and_options_are_told_apart_wherever_they_stand(words: str, read: dict[str, object] | None):
    split = words.split()
    if read is None:
        with pytest.raises(SystemExit):
            build(split).parse_args(split)
        return
    found = vars(build(split).parse_args(split))
    assert {name: found[name] for name in read} == read


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_an_option_that_is_none_is_answered_with_the_usage_of_the_verb(verb: str, capsys: pytest.CaptureFixture[str]):
    assert main([verb, "--nosuch"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[1].startswith(f"usage: windlass {verb} ")
    assert said[-1] == f"'windlass {verb} --help' says more"


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_no_option_goes_by_the_beginning_of_its_name(verb: str):
    assert not parser_of(verb).allow_abbrev


def test_a_session_that_is_named_by_an_option_is_not_approved_for_good(
    place: Callable[[Place], pathlib.Path],
):
    """`--session` names a session for `run`; here it was taken for `--session-wide`, a standing approval for a day."""
    done = ran(place("made"), "approve", "--session", "march", "--wait", "0")
    assert done.returncode == 2
    assert "there is no option '--session'" in done.stderr


def test_a_mistyped_option_is_told_the_one_that_is_near(capsys: pytest.CaptureFixture[str]):
    assert main(["approve", "march", "--wiat", "0"]) == 2
    assert capsys.readouterr().err.startswith("windlass: there is no option '--wiat': did you mean --wait?\n")
    assert main(["approve", "march", "p8", "p9"]) == 2
    assert capsys.readouterr().err.startswith("windlass: one word too many: 'p9'\n")


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("--budget-turns", "0"),
        ("--budget-turns", "-1"),
        ("--budget-usd", "-1"),
        ("--budget-usd", "nan"),
        ("--budget-usd", "inf"),
    ],
)
def test_a_limit_with_which_nothing_could_be_done_is_refused(
    option: str, wrong: str, place: Callable[[Place], pathlib.Path]
):
    done = ran(place("bare"), "run", "--agent", "agents.py:free", "Pay it.", f"{option}={wrong}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"windlass: {option} {wrong}: give ")


def test_ids_alone_are_printed_for_scripts(place: Callable[[Place], pathlib.Path]):
    folder = place("made")
    rows = [row["session"] for row in json.loads(ran(folder, "ps", "--json").stdout)]
    assert ran(folder, "ps", "--ids").stdout.splitlines() == rows
    assert ran(folder, "ps", "--ids", "--state", "new").stdout == ""
