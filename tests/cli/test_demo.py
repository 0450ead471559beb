"""The demo: its clock, what counts as going well, and, where the embedded model is there, the session itself."""

from __future__ import annotations

import pathlib
import subprocess
from datetime import UTC, datetime
from typing import get_args

import pytest

from windlass.cli.verbs.work import demo
from windlass.cli.verbs.work.demo import CITIES, City, Witness, time_in
from windlass.models.embedded.model import missing, model_path
from windlass.runtime.api.result import Result

from .terminal import PROGRAM, Terminal

ROOT = pathlib.Path(__file__).parents[2]
NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


def test_clock_knows_exactly_the_cities_of_its_schema():
    assert set(get_args(City)) == set(CITIES)
    assert len(CITIES) == 20
    assert [time_in(city, NOON) for city in ("Lisbon", "Tokyo", "Delhi", "Lima")] == [
        "12:00",
        "21:00",
        "17:30",
        "07:00",
    ]


def test_clock_works_without_zone_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(demo, "CITIES", {"Oslo": ("No/Where", 60)})
    assert time_in("Oslo", NOON) == "13:00"


def result(text: str) -> Result:
    return Result(session="s", run_id="r", status="completed", stop="completed", text=text)


def test_only_the_right_call_and_the_right_answer_count():
    witness = Witness()
    witness.calls, witness.told = [("clock", {"city": "Oslo"})], ["13:00"]
    assert witness.right(result("In Oslo it is 13:00."), "Oslo")
    assert not witness.right(result("In Oslo it is 14:00."), "Oslo")
    assert not witness.right(result("In Oslo it is 13:00."), "Rome")
    witness.calls.append(("clock", {"city": "Oslo"}))
    assert not witness.right(result("In Oslo it is 13:00."), "Oslo")


def test_demo_without_its_model_begins_nothing(terminal: Terminal, tmp_path: pathlib.Path):
    terminal.folder = tmp_path
    terminal.shown("demo", code=2, environ={"WINDLASS_CACHE": str(tmp_path / "none")})
    assert not (tmp_path / "windlass.db").exists()


def test_script_is_posix_sh_and_has_help():
    told = subprocess.run(["sh", "./demo", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("usage: ./demo")
    subprocess.run(["sh", "-n", "./demo"], cwd=ROOT, check=True)


@pytest.mark.long
def test_model_comes_out_right_in_19_of_20_runs(tmp_path: pathlib.Path):
    problem = missing(model_path())
    assert problem is None, problem
    right = 0
    for city in sorted(CITIES):
        ran = subprocess.run([*PROGRAM, "demo", "--city", city], cwd=tmp_path, capture_output=True, check=False)
        right += ran.returncode == 0
    assert right >= 19
