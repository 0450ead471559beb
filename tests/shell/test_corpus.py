"""The shell corpus: what must be said of each text, and what must not."""

from __future__ import annotations

import pytest

from tests.shell.corpus import Case, all_cases, label
from windlass.tools.description import CallPlace, Description
from windlass.tools.shell.shell_description import shell_description

CASES = all_cases()
PLACE = CallPlace(folder="/ws")


def described(text: str) -> Description:
    return shell_description({"command": text}, PLACE)


def test_the_corpus_is_large_and_names_no_text_twice_for_nothing() -> None:
    assert len(CASES) >= 600
    assert len({(case.text, case.name) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_a_text_is_judged_as_it_should_be(case: Case) -> None:
    about = described(case.text)
    assert (about.exact, about.unclear is None, about.traits == ("read",)) == (case.exact, case.readable, case.reads)
    assert set(case.lines) <= set(about.commands)
    assert set(case.writes) <= set(about.writes)
    assert set(case.paths) <= set(about.paths)
    assert set(case.hosts) <= set(about.hosts)
    assert bool(about.subject) <= about.exact
