"""The tables in the docs say what was proven, and nothing else."""

from __future__ import annotations

import re
import typing

from acp import meta, schema

from windlass.adapters.acp.methods import METHODS, NOTICES
from windlass.adapters.acp.view.fold import StopWord

from .support import ROOT
from .told_runs import proofs

PAGE = (ROOT / "docs" / "tasks" / "acp.md").read_text(encoding="utf-8")
BY_CLIENTS = {"kind `switch_mode`": "client: a plan (`python_scenarios.py`)"}
"""What only somebody at an editor brings about; the scenarios check each of them."""
NEVER = {
    "update `plan_update`": "not told: `plan` is the list of todos; a written plan is put before the person as a request",
    "update `plan_removed`": "not told: as above",
    "content `terminal`": "not told: commands run here, not in a terminal of the editor",
}


def words() -> list[str]:
    """Every word of the published schema that a table has a row for."""
    updates = typing.get_args(schema.SessionNotification.model_fields["update"].annotation)
    names = [update.model_fields["session_update"].annotation for update in updates]
    made = [f"update `{typing.get_args(name)[0]}`" for name in names]
    made += [f"kind `{kind}`" for kind in typing.get_args(schema.ToolKind)]
    made += [f"status `{status}`" for status in typing.get_args(schema.ToolCallStatus)]
    made += [f"content `{kind}`" for kind in ("content", "diff", "terminal")]
    return made + [f"stop `{stop}`" for stop in typing.get_args(schema.StopReason)]


def test_there_is_a_row_for_each_word_of_the_schema_and_it_says_what_the_runs_prove():
    table = dict(re.findall(r"^\| ((?:update|kind|status|content|stop) `[a-z_]+`) \| (.+) \|$", PAGE, re.MULTILINE))
    assert sorted(table) == sorted(words())
    for word, said in table.items():
        run = re.fullmatch(r"run `([a-z_-]+)`", said)
        if run is not None:
            assert run[1] in proofs()[word], word
        else:
            assert (word in proofs(), said) == (False, BY_CLIENTS.get(word) or NEVER[word])


def test_the_stop_reasons_are_those_of_the_schema():
    assert typing.get_args(StopWord) == typing.get_args(schema.StopReason)


def test_each_method_of_the_schema_has_its_place_on_the_page():
    table = "\n".join(re.findall(r"^\| `.+$", PAGE, re.MULTILINE))
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_*]+)?)`", table))
    for method in (*meta.AGENT_METHODS.values(), *meta.CLIENT_METHODS.values(), *METHODS, *NOTICES):
        family = method.split("/")[0] + "/*"
        known = {
            "session/update": True,
            "elicitation/complete": True,
        }  # the next table; links are not put before people
        assert method in named or family in named or known.get(method), method
