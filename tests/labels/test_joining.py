"""What the model has seen, the session carries on: from every source, over every path, until a person says otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.session import HELPER, TOOLS, Session, Settings, call, names
from tests.labels.sessions import MARKED, declassify, do, held, marked
from windlass.events.context import ContextPagedIn, PageBody
from windlass.events.errors import Refused
from windlass.events.sessions import RewindReceived, SessionImported, SessionStarted
from windlass.events.tools.calls import ResultBody, ResultReceived, ToolSuspended, ToolTimedOut
from windlass.events.tools.labels import LabelsJoined, Provenance
from windlass.events.values.blocks import Text
from windlass.events.values.policy import Policy
from windlass.events.values.tools import ToolSpec
from windlass.kernel import log
from windlass.kernel.effects import StartChild
from windlass.kernel.parts.tools.labels import HELD_MAX


def joined(events: list[Any]) -> list[Provenance]:
    return [found for event in events if isinstance(event, LabelsJoined) for found in event.labels]


# --- sources --------------------------------------------------------------------------------------------------------


def test_what_a_tool_declares_holds_from_the_moment_that_its_call_begins():
    session = marked()
    events = session.reply("", call("files"))
    assert names(events)[-2:] == ["tool.started", "labels.joined"]
    assert joined(events) == [
        Provenance(label="private", source=session.called(), seq=session.state.seq - 1, tool="files")
    ]


def test_what_a_tool_says_while_it_runs_holds_from_its_result():
    session = marked()
    session.reply("", call("add"))
    assert held(session) == frozenset()
    events = session.finish(labels=("private:payroll",))
    assert joined(events)[0].source == session.called()
    assert held(session) == {"private:payroll"}


def test_a_label_is_told_once_with_what_brought_it_first():
    session = marked()
    do(session, "files", "files", "surf")
    told = joined(session.events())
    assert [(found.label, found.source) for found in told] == [
        ("private", session.called(0)),
        ("untrusted:web", session.called(2)),
    ]


def test_a_denied_call_brings_nothing():
    session = marked(policy=Policy(default="deny"))
    session.reply("", call("files"), call("fetch"))
    assert (held(session), session.state.labels.way_out) == (frozenset(), None)


def test_results_of_mcp_tools_are_untrusted_whatever_they_say():
    session = marked()
    do(session, "mcp_search")
    assert held(session) == {"untrusted:mcp"}


def test_a_prompt_joins_when_the_model_is_told_of_it():
    session = Session()
    session.prompt(labels=("private",))
    assert held(session) == {"private"}
    assert joined(session.events())[0].source == "i2"
    session.prompt(labels=("untrusted:mail",), behavior="follow_up")
    assert held(session) == {"private"}  # it waits
    session.reply("done")
    assert held(session) == {"private", "untrusted:mail"}


def test_signals_pages_beginnings_and_children_carry_labels():
    session = Session(tools=(*TOOLS, HELPER), start=False)
    setup = Session(tools=(*TOOLS, HELPER)).events()[0].setup
    session.take(
        SessionStarted(command_id="start", session_id="s1", epoch=1, setup=setup, labels=("untrusted:history",))
    )
    session.signal(labels=("untrusted:hook",))
    session.take(ContextPagedIn(query="q", tokens=3, labels=("private:old",), body=PageBody(text="x")))
    session.prompt()
    session.reply("", call("helper"))
    session.child_ends(labels=("private:child",))
    assert [(found.label, found.source) for found in joined(session.events())] == [
        ("untrusted:history", "start"),
        ("untrusted:hook", "s3"),
        ("private:old", "page"),
        ("private:child", session.called()),
    ]


def test_a_child_begins_with_what_its_parent_has_seen():
    session = Session(tools=(*MARKED, *TOOLS, HELPER))
    session.prompt()
    do(session, "files")
    session.reply("", call("helper"))
    (effect,) = session.owed()
    assert isinstance(effect, StartChild)
    assert (effect.labels, effect.quarantine) == (("private",), False)
    session.crash()
    assert session.owed() == (effect,)


def test_results_from_outside_carry_labels():
    session = marked()
    session.reply("", call("ui"))
    body = ResultBody(content=(Text(text="x"),))
    session.take(ResultReceived(command_id=session.command(), call_id=session.called(), labels=("private",), body=body))
    session.reply("", call("add"))
    session.take(ToolSuspended(call_id=session.called(1), labels=("untrusted",)))
    session.result(session.called(1))
    session.reply("", call("add", {"x": 1}))
    session.take(ToolTimedOut(call_id=session.called(2), timeout_ms=1, labels=("private:late",)))
    assert held(session) == {"private", "untrusted", "private:late"}


# --- paths ----------------------------------------------------------------------------------------------------------


def test_a_rewind_takes_no_label_away():
    """What the model has seen, it has seen: its words and its plan may say it again."""
    session = marked()
    do(session, "files")
    session.reply("done")
    session.take(RewindReceived(command_id=session.command(), to_seq=0))
    assert session.state.history.items == []
    assert held(session) == {"private"}


@pytest.mark.parametrize("summarise", [True, False], ids=["summary", "cut"])
def test_a_compaction_takes_no_label_away(summarise):
    session = marked(settings=Settings(summarise=summarise, keep_exchanges=1))
    do(session, "files", "surf", "add", "add", "add")
    session.reply("done")
    session.compact()
    if summarise:
        session.reply("short", tokens=1)
    assert "compaction.finished" in session.names() or "context.truncated" in session.names()
    assert held(session) == {"private", "untrusted:web"}


def test_a_fork_carries_what_there_was_at_its_point():
    session = marked()
    do(session, "files")
    point = session.state.seq
    do(session, "surf")
    assert held(session.fork(point)) == {"private"}
    assert held(session.fork(session.state.seq)) == {"private", "untrusted:web"}


def test_the_end_of_a_run_says_what_its_answer_is_marked_with():
    session = marked()
    do(session, "files")
    assert session.reply("42")[-1].labels == ("private",)


def test_a_crash_and_a_snapshot_keep_them():
    session = marked()
    do(session, "files")
    session.crash()
    assert held(session) == {"private"}
    assert log.load(log.dump(session.state)).labels == session.state.labels


def test_a_log_from_before_there_were_labels_is_told_about_at_the_next_step():
    session = marked()
    session.reply("", call("files"))
    state = session.folded()
    state.labels.met, state.labels.held = dict(state.labels.held), {}
    session.state = state
    events = session.finish()
    assert [found.label for found in joined(events)] == ["private"]


# --- taking one away ------------------------------------------------------------------------------------------------


def test_a_person_takes_a_label_away_and_says_why():
    session = marked()
    do(session, "files", "surf")
    events = declassify(session, "private", reason="published in May")
    assert (names(events)[:2], events[0].actor) == (["labels.declassified", "command.completed"], "ada")
    assert held(session) == {"untrusted:web"}
    do(session, "files")
    assert held(session) == {"private", "untrusted:web"}  # it is read again: that is news


@pytest.mark.parametrize(
    ("names", "reason", "told"),
    [
        (("private:hr",), "x", "no label private:hr: the session has private"),
        ((), "x", "no label is named"),
        (("private",), " ", "say why"),
        (("private",), "x" * 1_001, "say why"),
    ],
)
def test_what_is_not_there_or_has_no_reason_is_refused(names, reason, told):
    session = marked()
    do(session, "files")
    with pytest.raises(Refused, match=told):
        declassify(session, *names, reason=reason)
    assert held(session) == {"private"}


def test_a_log_from_elsewhere_is_untrusted_and_what_was_taken_away_there_is_back():
    session = marked()
    do(session, "files")
    declassify(session, "private")
    session.reply("done")
    assert held(session) == frozenset()
    session.take(SessionImported(session_id="copy", epoch=2))
    assert held(session) == {"private", "untrusted:import"}


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_beyond_the_bound_the_words_stay_and_the_names_go():
    session = marked()
    for batch in range(5):
        session.reply("", call("add", {"n": batch}))
        session.finish(labels=tuple(f"private:{batch}-{n}" for n in range(40)))
    session.reply("", call("add", {"n": "last"}))
    session.finish(labels=("untrusted:late",))
    now = held(session)
    assert len(now) <= HELD_MAX + 2
    assert {"private", "untrusted"} <= now


def test_what_is_no_label_is_kept_by_its_word():
    session = marked()
    session.reply("", call("add"))
    session.finish(labels=("private:" + "x" * 500, " PRIVATE :y", "‮", "pii"))
    assert held(session) == {"private", "untrusted", "pii"}


def test_prepared_labels_must_be_those_of_the_content():
    spec = ToolSpec(name="slow", digest="d")
    session = Session(tools=(*MARKED, spec))
    session.prompt()
    session.reply("", call("slow", prepared=None))
    (name,) = [c.call_id for c in session.state.calls.by_id.values()]
    fact = session.prepare(name, labels=("private",))[0]
    assert session.state.calls.by_id[name].labels == ("private",)
    assert fact.labels == ("private",)
