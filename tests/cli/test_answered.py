"""A request that has its answer in the inbox: whoever comes second is told so, and everybody who looks sees it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

from windlass.cli.identity import actor

from .screens import Place
from .test_run import ran


def test_who_comes_second_is_told_what_came_first_and_what_was_said_first_happens(
    place: Callable[[Place], pathlib.Path],
):
    folder = place("made")
    (request,) = [ask["ask_id"] for ask in json.loads(ran(folder, "show", "march", "--json").stdout)["open"]]
    assert ran(folder, "approve", "march", "--wait", "0").returncode == 0
    late = ran(folder, "deny", "march", "--wait", "0")
    assert (late.returncode, late.stdout) == (2, "")
    assert late.stderr == (
        f"windlass: session 'march' would refuse that now: permission {request} has an answer that waits in the inbox: "
        f"{actor()} approved it; the first counts\n"
    )
    shown = ran(folder, "show", "march").stdout
    assert f"  answered: {actor()} approved it; it waits in the inbox until the session is driven\n" in shown
    assert "windlass approve" not in shown
    assert "windlass run --agent FILE.py:clerk --session march" in shown
    assert json.loads(ran(folder, "show", "march", "--json").stdout)["answers"] == {request: f"{actor()} approved it"}
    assert f"permission {request} (pay), answered: {actor()} approved it" in ran(folder, "ps", "--waiting").stdout
    rows = {row["session"]: row["answers"] for row in json.loads(ran(folder, "ps", "--json").stdout)}
    assert rows["march"] == {request: f"{actor()} approved it"}
    assert rows["poll"] == {}
    assert "Done: I-7 is paid." in ran(folder, "run", "--agent", "agents.py:clerk", "--session", "march").stdout
