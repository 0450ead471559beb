"""Structured output: validated by the host, re-asked with the errors a bounded number of times, honest in the end."""

from __future__ import annotations

import pytest

from tests.kernel.session import Session, Settings, call, names
from windlass.events.turns import OutputCheck, OutputExtracted, OutputFailed, OutputRejected
from windlass.events.values.blocks import Text
from windlass.events.values.setup import Limits, RunOptions

GOOD = OutputCheck(valid=True, value={"total": 45}, warnings=("extra field",))
BAD = OutputCheck(valid=False, errors=("$.total: missing",))


def asked(**changes):
    session = Session(settings=Settings(output_required=True, **changes))
    session.prompt()
    return session


def test_an_answer_that_fits_is_extracted_and_ends_the_run():
    session = asked()
    end = session.reply('{"total": 45}', output=GOOD)
    assert names(end) == ["model.replied", "output.extracted", "turn.finished", "run.completed"]
    assert end[1] == OutputExtracted(reply_seq=6, attempts=1, warnings=("extra field",))


def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_errors():
    session = asked()
    again = session.reply("no idea", output=BAD)
    assert names(again) == ["model.replied", "output.rejected", "turn.finished", "turn.started", "model.requested"]
    assert again[1] == OutputRejected(reply_seq=6, attempt=1, errors=("$.total: missing",))
    said = "Your answer does not fit the required schema:\n- $.total: missing\nAnswer again."
    assert session.items()[-1].content == (Text(text=said),)
    end = session.reply('{"total": 45}', output=GOOD)
    assert end[1] == OutputExtracted(reply_seq=11, attempts=2, warnings=("extra field",))


def test_failure_is_honest_after_the_last_attempt():
    session = asked()
    session.reply("no", output=BAD)
    session.reply("no", output=BAD)
    end = session.reply("no", output=BAD)
    assert names(end) == ["model.replied", "output.failed", "turn.finished", "run.failed"]
    assert end[1] == OutputFailed(reply_seq=16, attempts=3, errors=("$.total: missing",))
    assert (end[-1].stop, end[-1].cause) == ("output_invalid", "output_invalid")


def test_without_anything_to_check_it_the_answer_is_not_taken_on_trust():
    session = asked()
    end = session.reply("45")
    assert end[1] == OutputFailed(reply_seq=6, attempts=1, errors=("nothing here could check the answer",))


def test_calls_come_before_the_answer():
    session = asked()
    session.reply("", call("add"))
    assert "output.rejected" not in session.names()
    session.finish()
    assert names(session.reply("45", output=GOOD))[-1] == "run.completed"


def test_a_refusal_is_a_refusal():
    session = asked()
    end = session.reply("I will not", finish="refusal")
    assert names(end) == ["model.replied", "turn.finished", "run.completed"]
    assert end[-1].stop == "refused"


def test_where_nothing_is_required_nothing_is_checked():
    session = Session()
    session.prompt()
    assert names(session.reply("45", output=BAD)) == ["model.replied", "turn.finished", "run.completed"]


@pytest.mark.parametrize(("always", "now", "checked"), [(False, True, True), (True, False, False), (True, None, True)])
def test_a_prompt_may_require_it_or_not(always, now, checked):
    session = Session(settings=Settings(output_required=always))
    session.prompt(options=RunOptions(output_required=now))
    assert ("output.extracted" in names(session.reply("45", output=GOOD))) == checked


def test_what_steers_while_the_answer_is_written_is_answered_too():
    session = asked()
    session.prompt("and in euros", behavior="steer")
    assert names(session.reply("45", output=GOOD)) == [
        "model.replied",
        "output.extracted",
        "turn.finished",
        "turn.started",
        "model.requested",
    ]
    assert names(session.reply("41", output=GOOD))[-1] == "run.completed"


def test_a_wrap_up_turn_that_does_not_fit_is_not_asked_again():
    session = Session(settings=Settings(output_required=True), run_limits=Limits(turns=1))
    session.prompt()
    session.reply("", call("add"))
    session.finish()
    end = session.reply("so far", output=BAD)
    assert names(end) == ["model.replied", "output.failed", "turn.finished", "run.failed"]
    assert end[-1].stop == "output_invalid"
