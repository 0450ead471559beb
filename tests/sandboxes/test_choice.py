"""Which sandbox is taken by its name, and what is said of those that are not there."""

from __future__ import annotations

import argparse
import json

import pytest

import windlass
from windlass import SessionOptions
from windlass.cli import options
from windlass.cli.main import main
from windlass.events.errors import UsageError
from windlass.tools.sandboxes import choice
from windlass.tools.sandboxes.bubblewrap import bubblewrap_problem
from windlass.tools.sandboxes.choice import Candidate, best, candidates, sandbox_named
from windlass.tools.sandboxes.local import LocalSandboxes


def test_the_best_that_works_is_taken_and_local_if_none_does():
    broken = {name: Candidate(name=name, problem="no") for name in choice.BY_WORTH}
    assert best(tuple(broken.values())) == "local"
    for name in choice.BY_WORTH:
        assert best(tuple({**broken, name: Candidate(name=name)}.values())) == name
    assert best((Candidate(name="bubblewrap"), Candidate(name="landlock"))) == "bubblewrap"


def test_a_name_that_is_none_and_a_sandbox_that_does_not_work_are_refused_when_it_is_asked_for(monkeypatch):
    with pytest.raises(UsageError, match="no sandbox 'jail': give one of auto, local, bubblewrap, landlock, container"):
        sandbox_named("jail")
    with pytest.raises(UsageError, match="no sandbox 'jail'"):
        windlass.open(sandbox="jail")
    monkeypatch.setenv("PATH", "/nowhere")
    bubblewrap_problem.cache_clear()
    try:
        with pytest.raises(UsageError, match="'bubblewrap' cannot be used here: there is no program 'bwrap'"):
            windlass.open(sandbox="bubblewrap")
        assert isinstance(sandbox_named("local"), LocalSandboxes)
    finally:
        bubblewrap_problem.cache_clear()


def test_a_bubblewrap_that_does_not_work_says_why(tmp_path, monkeypatch):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    bubblewrap_problem.cache_clear()
    try:
        assert candidates()[0].problem == "bwrap does not work: bwrap: No permissions to create a new namespace"
    finally:
        bubblewrap_problem.cache_clear()


def test_doctor_says_which_are_there_and_why_not_the_others(capsys):
    main(["doctor", "--json"])
    said = [each["finding"] for each in json.loads(capsys.readouterr().out) if each["about"] == "sandbox"]
    for candidate in candidates():
        assert any(candidate.name in line and (candidate.problem or "works") in line for line in said)


async def test_the_files_of_a_store_are_hidden_from_the_sandbox(tmp_path, monkeypatch):
    from windlass.runtime.api.runtime_options import files_of

    assert files_of(":memory:") == ()
    assert files_of(f"sqlite:{tmp_path}/a.db")[0] == str(tmp_path / "a.db")


def test_who_asks_for_the_best_and_gets_none_that_confines_is_told(monkeypatch):
    args = argparse.Namespace(sandbox="auto")
    monkeypatch.setattr(choice, "why_missing", lambda name: None)
    assert options.sandbox_warning(args, SessionOptions(sandbox="landlock")) is None
    assert "are not confined" in (options.sandbox_warning(args, SessionOptions(sandbox="local")) or "")
    args.sandbox = "local"
    assert options.sandbox_warning(args, SessionOptions(sandbox="local")) is None
    monkeypatch.setattr(choice, "why_missing", lambda name: "it was taken away")
    args.sandbox = None
    assert "it was taken away" in (options.sandbox_warning(args, SessionOptions(sandbox="landlock")) or "")
