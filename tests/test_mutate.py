"""The mutation script changes one thing at a time, and tells a change that tests notice from one that they do not."""

from __future__ import annotations

import pathlib

import pytest
from dev import mutate

SOURCE = """
def bounded(n: int = 3, most: int | None = None) -> bool:
    "A text."
    if n < 10 and not n == 4:
        print(n)
        return n + 1 > 2
    raise ValueError
"""


@pytest.fixture
def project(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "subject.py").write_text(SOURCE)
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    return tmp_path


def test_each_mutant_differs_from_the_source_in_one_place(project: pathlib.Path):
    made = [make() for make in mutate.mutants_of(project / "src" / "subject.py")]
    told = {(one.before, one.after) for one in made}
    assert ("n < 10", "n <= 10") in told
    assert ("not n == 4", "n == 4") in told
    assert ("n == 4", "n != 4") in told
    assert ("n < 10 and (not n == 4)", "n < 10 or not n == 4") in told
    assert ("print(n)", "pass") in told
    assert ("raise ValueError", "pass") in told
    assert ("return n + 1 > 2", "return None") in told
    assert ("3", "4") in told
    assert len({one.source for one in made}) == len(made)
    assert not any("None = None" in one.before for one in made)


def test_a_mutant_is_told_by_what_its_tests_say(project: pathlib.Path):
    (project / "test_subject.py").write_text("from subject import bounded\ndef test(): assert bounded(3) is True\n")
    fates = {
        (made.before, made.after): mutate.tried(made, ["test_subject.py"], 60).fate
        for make in mutate.mutants_of(project / "src" / "subject.py")
        if (made := make()).before in ("return n + 1 > 2", "print(n)")
    }
    assert fates == {("return n + 1 > 2", "return None"): "noticed", ("print(n)", "pass"): "survived"}
