"""`windlass signal`: what it refuses, and that what it sends reaches the model of whoever drives the session."""

from __future__ import annotations

import io
import pathlib

import pytest

from windlass.cli.main import main
from windlass.cli.verbs.steer.signal import payload
from windlass.events.errors import UsageError

from .screens import proves

AGENT = """
import windlass
from windlass.testing import ScriptedModel

watcher = windlass.Agent("watcher", model=ScriptedModel(["I watch.", "I saw it."]))
"""


@pytest.fixture
def watched(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words that continue a session which watches."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    (tmp_path / "watcher.py").write_text(AGENT)
    resume = ["run", "--agent", "watcher.py:watcher", "--session", "march"]
    assert main([*resume, "Watch."]) == 0
    capsys.readouterr()
    return resume


@pytest.mark.parametrize("text", ["{", "[1]", "3", '"a"'])
def test_data_that_is_no_object_is_refused_with_the_reason(text):
    with pytest.raises(UsageError, match="--data is"):
        payload(text)


def test_data_is_an_object():
    assert payload('{"a": [1]}') == {"a": [1]}
    assert payload(None) == {}


@proves("signal", "normal", "empty")
def test_a_signal_waits_for_whoever_drives_the_session_and_is_on_record_then(watched, capsys):
    assert main(["signal", "march", "fire", "the lab burns", "--urgency", "high", "--wait", "0"]) == 0
    assert capsys.readouterr().out.startswith("signal: fire (high)\nkept in the inbox; nobody drives this session now.")
    assert main(watched) == 0
    assert main(["logs", "march", "--full"]) == 0
    assert "kind fire, source command line, urgency high" in capsys.readouterr().out


@proves("signal", "error")
def test_a_signal_to_nobody_and_data_that_is_none_are_refused(watched, capsys):
    assert main(["signal", "nobody", "fire"]) == 2
    assert "no session 'nobody'" in capsys.readouterr().err
    assert main(["signal", "march", "fire", "--data", "[1]"]) == 2
    assert "--data is an object" in capsys.readouterr().err
