"""Writes the recorded logs in tests/histories/: a few rich scenarios that together hold every durable event.

    python dev/histories.py NAME...     writes the named ones (or all that are missing)

A recorded log is written once and replayed for ever by tests/histories/test_histories.py, so an existing file is only
written again when it is named, and only before its first release.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import msgspec

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kernel.session import ASK_PAY, MODEL, TOOLS, Session, Settings, call, malformed  # noqa: E402
from windlass.events import calls as ce  # noqa: E402
from windlass.events import context as xe  # noqa: E402
from windlass.events import runs as re_  # noqa: E402
from windlass.events import sessions as se  # noqa: E402
from windlass.events import turns as te  # noqa: E402
from windlass.events.blocks import Text  # noqa: E402
from windlass.events.failures import failure  # noqa: E402
from windlass.events.hooks import HookRuling  # noqa: E402
from windlass.events.questions import Answer, AnswerBody, Question, QuestionBody  # noqa: E402
from windlass.events.record import digest_text  # noqa: E402
from windlass.events.specs import (  # noqa: E402
    AgentRef,
    Grant,
    Limits,
    Policy,
    Rule,
    Task,
    ToolSpec,
    Workspace,
)
from windlass.events.turns import OutputCheck, ReplyCall  # noqa: E402
from windlass.events.usage import Usage  # noqa: E402
from windlass.kernel import log  # noqa: E402
from windlass.kernel.log import KERNEL_VERSION, STATE_VERSION  # noqa: E402
from windlass.kernel.owed import overview  # noqa: E402

FOLDER = ROOT / "tests" / "histories"
SUMS = FOLDER / "sums.json"
HOUR = 3_600_000
SHORT = Usage(input_tokens=1, output_tokens=5)


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """What a recorded log adds up to. `items` and `overview` hold for ever, `state` while its version is the same."""

    records: int
    kernel_version: str
    state_version: int
    state: str
    overview: str
    items: str


def sum_of(lines: list[bytes]) -> Sum:
    session = Session(start=False)
    session.lines = lines
    session.state = log.fold_lines(lines)
    return Sum(
        records=session.state.seq,
        kernel_version=KERNEL_VERSION,
        state_version=STATE_VERSION,
        state=log.state_hash(session.state),
        overview=digest_text(msgspec.json.encode(overview(session.state), order="deterministic")),
        items=digest_text(msgspec.json.encode(session.items(), order="deterministic")),
    )


def tools() -> Session:
    """A batch, one that fails, one that times out, bad arguments, repeats, files, and a person's own call."""
    session = Session()
    session.prompt("look around")
    session.reply("", call("add", {"n": 1}), call("put", {"n": 2}), call("nowhere"), malformed("add", "{"))
    session.finish("c6.1", "written", changes=(se.FileChange(path="a.py", operation="create", lines_added=9),))
    session.finish("c6.0", "no such file", ok=False)
    session.reply("", call("put", {"n": 3}))
    session.take(ce.ToolTimedOut(call_id=session.running()[0], timeout_ms=500))
    for _ in range(3):
        session.reply("", call("add", {"n": 7}))
        session.finish()
    session.run_tool("add", {"n": 1})
    session.finish(text="1")
    session.reply("done")
    session.take(se.SessionShutDown(reason="end of day"))
    return session


def approvals() -> Session:
    """Asked, missed, approved days later, denied with feedback, standing approvals, a denial by rule."""
    policy = Policy(rules=(*ASK_PAY.rules, Rule(action="deny", tool="put", reason="read only")))
    session = Session(policy=policy)
    session.prompt("pay")
    session.reply("", call("pay", {"n": 1}), call("pay", {"n": 2}), call("put"))
    first, second = session.state.asks
    session.nobody()
    session.at_ms += 72 * HOUR
    session.crash()
    session.approve(first, scope="session", actor="ada")
    session.finish(text="paid")
    session.deny(second, "not that one", actor="bob")
    session.reply("", call("pay", {"n": 3}))
    session.finish()
    session.reply("done")
    session.change(se.ChangeGrants(add=(Grant(grant_id="g", tool="add"),), revoke=tuple(session.state.grants)))
    session.take(re_.CommandRefused(command_id="late", code="not_open", message="too late"))
    session.prompt("once more")
    session.reply("", call("pay", {"n": 4}))
    session.cancel()
    return session


def questions() -> Session:
    """Plan mode, a plan that is rejected, then edited; questions of the agent and of a tool; autopilot to its end."""
    session = Session(mode="plan")
    session.prompt("plan it")
    session.reply("", call("plan", {"summary": "s", "content": "v1"}), call("pay"))
    session.answer(next(iter(session.state.asks)), action="reject", body=AnswerBody(feedback="shorter"))
    session.reply("", call("plan", {"summary": "s", "content": "v2"}))
    session.answer(next(iter(session.state.asks)), action="approve", body=AnswerBody(edited="v3"))
    session.reply("", call("ask_user", {"question": "which?", "options": ["a", "b"]}))
    session.answer(next(iter(session.state.asks)), body=AnswerBody(answers=(Answer(index=0, selected=("a",)),)))
    session.reply("", call("put"))
    session.take(ce.ToolAsked(call_id=session.running()[0], body=QuestionBody(questions=(Question(question="?"),))))
    session.finish()
    session.reply("", call("todo", {"todos": [{"todo_id": "1", "content": "x"}]}), call("task", {"goal": "g"}))
    session.change(se.ChangeMode(mode="autopilot"))
    session.reply("am I done?")
    session.reply("", call("complete_task", {"summary": "all done"}))
    return session


def failures() -> Session:
    """Retries, a long sleep, missing credentials, a budget with its wrap-up turn, a run that fails."""
    session = Session(run_limits=Limits(turns=3))
    session.prompt("go")
    session.model_fails("server_error")
    session.fire()
    session.model_fails("rate_limited", retry_after_ms=2 * HOUR)
    session.fire()
    session.model_fails("auth")
    session.wake()
    session.reply("", call("add", {"n": 1}))
    session.finish()
    session.reply("so far")
    session.prompt("again")
    session.model_fails("invalid_request")
    return session


def context() -> Session:
    """Elision, a summary, a failed one with a cut, paging, pins, an undo, a rewind, an interrupted compaction."""
    model = msgspec.structs.replace(MODEL, window_tokens=6_000, max_output_tokens=500)
    session = Session(model=model, settings=Settings(keep_exchanges=2, archive=True))
    session.take(se.InstructionsRendered(digest="i1", tokens=20, body=se.InstructionsBody(text="be brief")))
    session.prompt("read", tokens=10)
    for n in range(9):
        session.reply("", call("add", {"n": n}), tokens=150, usage=SHORT)
        session.finish(tokens=600, text=f"page {n}")
    session.take(se.InstructionsRendered(digest="i2", tokens=25, body=se.InstructionsBody(text="be kind")))
    session.reply("read it all", tokens=40, usage=SHORT)
    session.change(se.ChangePins(pin=(session.state.history[0].seq,)))
    session.compact()
    session.reply("it read nine pages", usage=SHORT)
    session.take(xe.ContextArchived(paged_seq=session.state.paged[0], pages=4))
    session.take(xe.UndoReceived(command_id=session.command(), restored=log.before_compaction(session.lines)))
    session.compact()
    session.model_fails("invalid_request")
    refused = failure("internal", "the archive is full")
    session.take(xe.ContextArchived(paged_seq=session.state.paged[0], failure=refused))
    session.take(xe.ContextPagedIn(query="page 3", tokens=9, body=xe.PageBody(text="page 3")))
    for n in range(3):
        session.prompt(f"{n}", tokens=50)
        session.reply(f"{n}", usage=SHORT)
    session.compact()
    session.interrupt()
    there = log.visible(log.fold_lines(session.lines[:5]))
    to_seq = log.fold_lines(session.lines[:5]).seq
    session.take(se.RewindReceived(command_id=session.command(), to_seq=to_seq, restored=there))
    return session


def asides() -> Session:
    """What a tool and a judge ask of a model, tried again, cut off by an interrupt; then other terms in the code."""
    session = Session()
    session.prompt("look into it")
    judged = te.AskBody(prompt="may it?", instructions="judge")
    session.take(te.ModelAsked(lane="judge", model=MODEL, tokens=10, max_output_tokens=20, body=judged))
    session.take(answer_aside(session, "allow"))
    session.reply("", call("put", {"n": 1}), call("put", {"n": 2}))
    first, second = session.running()
    asked = te.ModelAsked(call_id=first, model=MODEL, tokens=30, body=te.AskBody(prompt="what is it?"))
    session.take(asked)
    failed = failure("overloaded", "busy")
    session.take(te.ModelFailed(request_id=aside_of(session), lane="tool", failure=failed, sample=0.5))
    session.take(msgspec.structs.replace(asked, attempt=2))
    session.take(answer_aside(session, "a ship"))
    session.finish(first, "a ship")
    session.take(msgspec.structs.replace(asked, call_id=second))
    session.interrupt()
    terms = session.state.terms
    assert terms is not None
    other = msgspec.structs.replace(
        terms,
        model=msgspec.structs.replace(MODEL, name="test/other"),
        policy=ASK_PAY,
        limits=Limits(tokens=500_000),
        run_limits=Limits(turns=9),
        settings=Settings(turns_max=7),
        mode="autopilot",
    )
    session.crash(terms=other)
    return session


def aside_of(session: Session) -> str:
    """The request that was made aside last."""
    return next(request for request in reversed(session.state.requests) if session.state.requests[request].asked_seq)


def answer_aside(session: Session, text: str) -> te.ModelReplied:
    request = session.state.requests[aside_of(session)]
    body = te.ReplyBody(blocks=(Text(text=text),))
    return te.ModelReplied(
        request_id=request.request_id, lane=request.lane, finish="stop", usage=SHORT, tokens=5, bytes=9, body=body
    )


def owners() -> Session:
    """Crashes: requests again, unknown outcomes, one settled, other code, a suspended tool, a client's result."""
    session = Session()
    session.prompt("work")
    session.crash()
    session.reply("", call("add"), call("pay"), call("risky"), call("ui"))
    session.crash()
    session.finish("c8.0")
    session.settle("c8.2", "happened")
    session.result("c8.3", "clicked")
    session.reply("", call("put"))
    session.take(ce.ToolSuspended(call_id=session.running()[0], note="webhook"))
    fewer = tuple(spec for spec in TOOLS if spec.name != "risky")
    session.crash(agent=AgentRef(name="clerk", digest="d2"), tools=fewer, workspace=Workspace(cwd="/elsewhere"))
    session.result(next(iter(session.state.calls)), "it came")
    session.reply("done")
    session.take(se.WorkspaceChanged(workspace=Workspace(cwd="/back", branch="main")))
    return session


def fork() -> Session:
    """A log whose past belongs to another session: all that was open there is closed."""
    origin = Session(policy=ASK_PAY)
    origin.prompt("one")
    origin.reply("", call("wait", {"for_ms": HOUR}), call("pay"), call("put"))
    origin.prompt("two")
    branch = origin.fork(origin.state.seq)
    branch.prompt("another way")
    branch.reply("fine")
    return branch


def queue() -> Session:
    """Follow-ups, steering, an edited queue, signals, sleeping, waking, and every setting changed."""
    session = Session()
    session.prompt("first")
    session.prompt("second")
    session.prompt("third")
    session.prompt("quick", behavior="steer")
    session.take(re_.QueueEdited(command_id=session.command(), order=(f"i{session.state.queue[1]}",)))
    session.signal("mail", dedupe_key="m1")
    session.signal("mail", dedupe_key="m1")
    session.signal("weather", urgency="low")
    session.reply("", call("wait", {"for_ms": HOUR}))
    session.reply("later")
    session.interrupt("half")
    session.wake()
    session.reply("", call("wait", {"for_ms": HOUR}))
    session.reply("now wait")
    session.fire()
    session.reply("done")
    session.change(se.ChangeTitle(title="a title"))
    session.change(se.ChangeMetadata(metadata={"team": "a"}))
    session.change(se.ChangeTask(task=Task(goal="g")))
    session.change_settings(turns_max=9)
    session.change(se.ChangeModel(model=msgspec.structs.replace(MODEL, name="test/other")))
    session.prompt("with another model")
    session.reply("fine")
    return session


def output() -> Session:
    """An answer that does not fit, one that does, one that never does."""
    session = Session(settings=Settings(output_required=True))
    session.prompt("as JSON")
    session.reply("no", output=OutputCheck(valid=False, errors=("$: not an object",)))
    session.reply("{}", output=OutputCheck(valid=True, value={}))
    session.prompt("again")
    for _ in range(3):
        session.reply("no", output=OutputCheck(valid=False, errors=("$: not an object",)))
    return session


def toolset() -> Session:
    """Tools come and go; hooks rule; notices and erasures are told."""
    session = Session()
    session.mount(ToolSpec(name="extra", digest="x1"), source="server")
    session.prompt("use it")
    session.reply("", call("load_tools", {"names": ["hidden"]}), ReplyCall(call=call("extra").call))
    ruling = HookRuling(hook_id="audit", point="before_tool", outcome="allowed")
    waiting = next(c.call_id for c in session.state.calls.values() if c.status == "requested")
    body = ce.PreparedBody(prepared=call("extra").prepared)  # type: ignore[arg-type]
    session.take(ce.ToolPrepared(call_id=waiting, digest=body.prepared.digest, hooks=(ruling,), body=body))
    session.unmount("extra")
    session.unmount("extra", force=True)
    session.reply("done")
    session.take(se.NoticeGiven(code="disk", message="nearly full", level="warning"))
    session.take(se.ContentErased(seq=6, by="ada", why="asked for"))
    return session


SCENARIOS: dict[str, Callable[[], Session]] = {
    made.__name__: made
    for made in (tools, approvals, questions, failures, context, asides, owners, fork, queue, output, toolset)
}


def main(names: list[str]) -> int:
    sums = msgspec.json.decode(SUMS.read_bytes(), type=dict[str, Sum]) if SUMS.exists() else {}
    for name in names or [name for name in SCENARIOS if name not in sums]:
        session = SCENARIOS[name]()
        (FOLDER / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in session.lines))
        sums[name] = sum_of(session.lines)
        print(f"{name}: {sums[name].records} records")
    SUMS.write_bytes(msgspec.json.format(msgspec.json.encode(sums, order="sorted"), indent=2) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
