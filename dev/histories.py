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

from windlass.events.changes import (
    ChangeAgent,
    ChangeGrants,
    ChangeMetadata,
    ChangeMode,
    ChangeModel,
    ChangePins,
    ChangeTask,
    ChangeTitle,
)
from windlass.events.commands import CommandRefused, QueueEdited
from windlass.events.context import ContextArchived, ContextPagedIn, PageBody, UndoReceived
from windlass.events.schedules import OccurrenceDelivered, ScheduleComputed, ScheduleReceived
from windlass.events.sessions import (
    ContentErased,
    HandoffReceived,
    NoticeGiven,
    RewindReceived,
    SessionImported,
    SessionShutDown,
)
from windlass.events.skills import (
    AvailableSkill,
    FailedSkill,
    FoundSkill,
    SkillBody,
    SkillKey,
    SkillReceived,
    SkillResolved,
    UnknownSkillAlias,
)
from windlass.events.tools.calls import PreparedBody, ToolAsked, ToolPrepared, ToolSuspended, ToolTimedOut
from windlass.events.tools.jobs import JobBody, JobFinished, JobStarted, KillReceived
from windlass.events.tools.labels import LabelsDeclassified
from windlass.events.trees.accounts import ChildSettled, GrantReceived
from windlass.events.trees.children import ChildFinished, ChildMoved, ChildOpened, Used
from windlass.events.trees.flows import FlowBody, FlowReceived, NodeBody, NodeCall, NodeComputed
from windlass.events.trees.growth import NodesReceived
from windlass.events.trees.machines import ComputedBody, MachineBody, MachineComputed, MachineReceived
from windlass.events.trees.worktrees import MergeBody, WorktreeMerged, WorktreeRemoved
from windlass.events.turns import AskBody, ModelAsked, ModelFailed, ModelReplied, Prepared, ReplyBody
from windlass.events.values.isolation import Worktree
from windlass.events.values.machines import MachineSpec, MachineState
from windlass.events.workspace import (
    FileChange,
    FilesKept,
    FilesRestoring,
    InstructionsBody,
    InstructionsRendered,
    KeptFile,
    KeptFiles,
    WorkspaceChanged,
)

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kernel.session import ASK_PAY, HELPER, MODEL, TOOLS, Session, Settings, call, malformed, setup  # noqa: E402
from windlass.events.hooks import HookRuling  # noqa: E402
from windlass.events.questions import Answer, AnswerBody, Question, QuestionBody  # noqa: E402
from windlass.events.sessions import SessionStarted  # noqa: E402
from windlass.events.stored.record import digest_text  # noqa: E402
from windlass.events.tools.mcp import McpBody, McpConnected, McpTool  # noqa: E402
from windlass.events.turns import OutputCheck, ReplyCall  # noqa: E402
from windlass.events.values.attention import Attention, always  # noqa: E402
from windlass.events.values.blocks import Text  # noqa: E402
from windlass.events.values.failures import failure  # noqa: E402
from windlass.events.values.graphs import FlowGraph, FlowNode  # noqa: E402
from windlass.events.values.ids import child_end_id, child_moved_id, child_settled_id, job_id  # noqa: E402
from windlass.events.values.plans import SchedulePlan  # noqa: E402
from windlass.events.values.policy import Grant, Policy, Rule  # noqa: E402
from windlass.events.values.setup import AgentRef, Chosen, Limits, SessionOptions, Spawning, Task, Workspace  # noqa: E402
from windlass.events.values.tools import ToolSpec  # noqa: E402
from windlass.events.values.usage import Usage  # noqa: E402
from windlass.kernel import log  # noqa: E402
from windlass.kernel.log import KERNEL_VERSION, STATE_VERSION  # noqa: E402
from windlass.kernel.owed import Overview, overview  # noqa: E402

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
        overview=digest_text(_said(overview(session.state))),
        items=digest_text(msgspec.json.encode(session.items(), order="deterministic")),
    )


def _said(line: Overview) -> bytes:
    """A field that overviews did not have once counts only if it says something."""
    return msgspec.json.encode(line, order="deterministic").replace(b',"stands":""', b"", 1)


def tools() -> Session:
    """A batch, one that fails, one that times out, bad arguments, repeats, files, and a person's own call."""
    session = Session()
    session.prompt("look around")
    session.reply("", call("add", {"n": 1}), call("put", {"n": 2}), call("nowhere"), malformed("add", "{"))
    session.finish("c6.1", "written", changes=(FileChange(path="a.py", operation="create", lines_added=9),))
    session.finish("c6.0", "no such file", ok=False)
    session.reply("", call("put", {"n": 3}))
    session.take(ToolTimedOut(call_id=session.running()[0], timeout_ms=500))
    for _ in range(3):
        session.reply("", call("add", {"n": 7}))
        session.finish()
    session.run_tool("add", {"n": 1})
    session.finish(text="1")
    session.reply("done")
    session.take(SessionShutDown(reason="end of day"))
    return session


def approvals() -> Session:
    """Asked, missed, approved days later, denied with feedback, standing approvals, a denial by rule."""
    policy = Policy(rules=(*ASK_PAY.rules, Rule(action="deny", tool="put", reason="read only")))
    session = Session(policy=policy)
    session.prompt("pay")
    session.reply("", call("pay", {"n": 1}), call("pay", {"n": 2}), call("put"))
    first, second = session.state.asks.open
    session.nobody()
    session.at_ms += 72 * HOUR
    session.crash()
    session.approve(first, scope="session", actor="ada")
    session.finish(text="paid")
    session.deny(second, "not that one", actor="bob")
    session.reply("", call("pay", {"n": 3}))
    session.finish()
    session.reply("done")
    session.change(ChangeGrants(add=(Grant(grant_id="g", tool="add"),), revoke=tuple(session.state.gate.grants)))
    session.take(CommandRefused(command_id="late", code="not_open", message="too late"))
    session.prompt("once more")
    session.reply("", call("pay", {"n": 4}))
    session.cancel()
    return session


def questions() -> Session:
    """Plan mode, a plan that is rejected, then edited; questions of the agent and of a tool; autopilot to its end."""
    session = Session(mode="plan")
    session.prompt("plan it")
    session.reply("", call("plan", {"summary": "s", "content": "v1"}), call("pay"))
    session.answer(next(iter(session.state.asks.open)), action="reject", body=AnswerBody(feedback="shorter"))
    session.reply("", call("plan", {"summary": "s", "content": "v2"}))
    session.answer(next(iter(session.state.asks.open)), action="approve", body=AnswerBody(edited="v3"))
    session.reply("", call("ask_user", {"question": "which?", "options": ["a", "b"]}))
    session.answer(next(iter(session.state.asks.open)), body=AnswerBody(answers=(Answer(index=0, selected=("a",)),)))
    session.reply("", call("put"))
    session.take(ToolAsked(call_id=session.running()[0], body=QuestionBody(questions=(Question(question="?"),))))
    session.finish()
    session.reply("", call("todo", {"todos": [{"todo_id": "1", "content": "x"}]}), call("task", {"goal": "g"}))
    session.change(ChangeMode(mode="autopilot"))
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


def selected() -> Session:
    """A specialist runs the session, then another one that only reads; then its own agent again, in other hands."""
    session = Session()
    session.prompt("think")
    session.reply("thought")
    session.change(ChangeAgent(agent="critic", display_name="The critic", tools=("add",)))
    own = session.state.toolset.tools
    code = AgentRef(name="clerk", digest="d-critic")
    options = SessionOptions(specialist=Chosen(name="critic"))
    session.crash(agent=code, tools=(own["add"],), options=options)
    session.prompt("judge")
    session.reply("it is bad")
    session.change(ChangeAgent(agent="reader", only_reads=True))
    session.prompt("write")
    session.reply("", call("put"))
    session.reply("I may not")
    session.change(ChangeAgent())
    session.crash(agent=AgentRef(name="clerk", digest="d1"), tools=tuple(TOOLS), options=SessionOptions())
    session.prompt("go on")
    session.reply("done")
    return session


def context() -> Session:
    """Elision, a summary, a failed one with a cut, paging, pins, an undo, a rewind, an interrupted compaction."""
    model = msgspec.structs.replace(MODEL, window_tokens=6_000, max_output_tokens=500)
    session = Session(model=model, settings=Settings(keep_exchanges=2, archive=True))
    session.take(InstructionsRendered(digest="i1", tokens=20, body=InstructionsBody(text="be brief")))
    session.prompt("read", tokens=10)
    for n in range(9):
        session.reply("", call("add", {"n": n}), tokens=150, usage=SHORT)
        session.finish(tokens=600, text=f"page {n}")
    session.take(InstructionsRendered(digest="i2", tokens=25, body=InstructionsBody(text="be kind")))
    session.reply("read it all", tokens=40, usage=SHORT)
    session.change(ChangePins(pin=(session.state.history.items[0].seq,)))
    session.compact()
    session.reply("it read nine pages", usage=SHORT)
    session.take(ContextArchived(paged_seq=session.state.archive.paged[0], pages=4))
    session.take(UndoReceived(command_id=session.command(), restored=log.before_compaction(session.lines)))
    session.compact()
    session.model_fails("invalid_request")
    refused = failure("internal", "the archive is full")
    session.take(ContextArchived(paged_seq=session.state.archive.paged[0], failure=refused))
    session.take(ContextPagedIn(query="page 3", tokens=9, body=PageBody(text="page 3")))
    for n in range(3):
        session.prompt(f"{n}", tokens=50)
        session.reply(f"{n}", usage=SHORT)
    session.compact()
    session.interrupt()
    there = log.visible(log.fold_lines(session.lines[:5]))
    to_seq = log.fold_lines(session.lines[:5]).seq
    session.take(RewindReceived(command_id=session.command(), to_seq=to_seq, restored=there))
    return session


def asides() -> Session:
    """What a tool and a judge ask of a model, tried again, cut off by an interrupt; then other terms in the code."""
    session = Session()
    session.prompt("look into it")
    judged = AskBody(prompt="may it?", instructions="judge")
    session.take(ModelAsked(lane="judge", model=MODEL, tokens=10, max_output_tokens=20, body=judged))
    session.take(answer_aside(session, "allow"))
    session.reply("", call("put", {"n": 1}), call("put", {"n": 2}))
    first, second = session.running()
    asked = ModelAsked(call_id=first, model=MODEL, tokens=30, body=AskBody(prompt="what is it?"))
    session.take(asked)
    failed = failure("overloaded", "busy")
    session.take(ModelFailed(request_id=aside_of(session), lane="tool", failure=failed, sample=0.5))
    session.take(msgspec.structs.replace(asked, attempt=2))
    session.take(answer_aside(session, "a ship"))
    session.finish(first, "a ship")
    session.take(msgspec.structs.replace(asked, call_id=second))
    session.interrupt()
    terms = session.state.setup.terms
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
    return next(
        request for request in reversed(session.state.requests.open) if session.state.requests.open[request].asked_seq
    )


def answer_aside(session: Session, text: str) -> ModelReplied:
    request = session.state.requests.open[aside_of(session)]
    body = ReplyBody(blocks=(Text(text=text),))
    return ModelReplied(
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
    session.take(ToolSuspended(call_id=session.running()[0], note="webhook"))
    fewer = tuple(spec for spec in TOOLS if spec.name != "risky")
    session.crash(agent=AgentRef(name="clerk", digest="d2"), tools=fewer, workspace=Workspace(cwd="/elsewhere"))
    session.result(next(iter(session.state.calls.by_id)), "it came")
    session.reply("done")
    session.take(WorkspaceChanged(workspace=Workspace(cwd="/back", branch="main")))
    return session


def upgrades() -> Session:
    """Other code, rules and modes under calls that wait: judged again, asked again, let pass on an approval that still
    holds, given up; and a log that was imported."""
    session = Session(policy=ASK_PAY, settings=Settings(tool_order="sequential"))
    session.prompt("pay")
    session.reply("", call("pay"), call("put"), call("pay", {"n": 2}))
    session.nobody()
    other = tuple(msgspec.structs.replace(spec, code="other") if spec.name == "pay" else spec for spec in TOOLS)
    session.crash(tools=other)
    for name in [one.call_id for one in session.state.calls.by_id.values() if one.status == "requested"]:
        session.prepare(name)
    for name in list(session.state.asks.open):
        session.approve(name, scope="session")
    session.change(ChangeMode(mode="plan"))
    for name in [one.call_id for one in session.state.calls.by_id.values() if one.status == "requested"]:
        session.prepare(name)
    session.take(SessionImported(session_id="copy", epoch=3, by="ada", source="march.jsonl"))
    return session


def children() -> Session:
    """A call that a child carries out: its end, a new owner meanwhile, and one that nobody waits for any more."""
    session = Session(tools=(*TOOLS, HELPER))
    session.prompt("have it done")
    session.reply("", call("helper", {"n": 1}))
    session.crash()
    session.child_ends("done")
    session.reply("", call("helper", {"n": 2}))
    session.interrupt()
    return session


def trees() -> Session:
    """Children in the background: one that is told something, moves and ends, and one that is stopped."""
    tell = ToolSpec(name="tell_child", digest="d-tell", runs="kernel", contract="pure", kind="read", traits=("read",))
    session = Session(tools=(*TOOLS, HELPER, tell), limits=Limits(tokens=100_000))
    session.prompt("have both done")
    spawning = Spawning(agent="helper", mode="background")
    spawns = [call("helper", {"n": n}, prepared=Prepared(digest=f"spawn{n}", spawning=spawning)) for n in (1, 2)]
    session.reply("", *spawns)
    first, second = list(session.state.children.open.values())
    for child in (first, second):
        session.take(ChildOpened(child_id=child.child_id, call_id=child.call_id, tokens=24))
    session.reply("", call("tell_child", {"child": first.child_id, "text": "faster"}))
    for seq, status in ((9, "asked"), (12, "working")):
        session.take(
            ChildMoved(
                command_id=child_moved_id(first.child_id, seq),
                child_id=first.child_id,
                call_id=first.call_id,
                child_seq=seq,
                status=status,  # type: ignore[arg-type]
                waiting_for=("p8",) if status == "asked" else (),
            )
        )
    session.child_ends("done", used=Used(usage=Usage(input_tokens=900, output_tokens=80), turns=2, calls=1))
    session.interrupt()
    return session


def settled() -> Session:
    """A child that is stopped before the one below it: its end comes first, and what both used later."""
    session = Session(tools=(*TOOLS, HELPER), limits=Limits(tokens=100_000, turns=20))
    session.prompt("have it done")
    spawning = Spawning(agent="helper")
    session.reply("", call("helper", {"n": 1}, prepared=Prepared(digest="spawn", spawning=spawning)))
    (child,) = session.state.children.open.values()
    session.cancel()
    first = Used(usage=Usage(input_tokens=300, output_tokens=20), turns=1, calls=1, children=1)
    session.child_ends("stopped", status="aborted", ok=False, used=first, held=Used(turns=4, calls=2))
    session.take(
        ChildSettled(
            command_id=child_settled_id(child.child_id),
            child_id=child.child_id,
            call_id=child.call_id,
            child_seq=12,
            used=Used(usage=Usage(input_tokens=500, output_tokens=40), turns=2, calls=1, children=1),
        )
    )
    return session


def granted() -> Session:
    """A child at its limit asks for more and gets it; then it sets more aside for a child of its own."""
    grant = ToolSpec(name="grant_child", digest="d-grant", runs="kernel", contract="pure", kind="read")
    limits = Limits(tokens=100_000, turns=3)
    own = setup(tools=(*TOOLS, HELPER, grant), limits=limits, settings=Settings(budget_asked=True))
    session = Session("lead~c1.0", start=False)
    place = {"parent_id": "lead", "parent_call_id": "c1.0", "root_id": "lead", "scope": "c1.0", "depth": 1}
    begun = {"command_id": "start", "session_id": "lead~c1.0", "epoch": 1}
    session.take(SessionStarted(setup=own, **begun, **place))  # type: ignore[arg-type]
    session.prompt("have it done")
    spawning = Spawning(agent="helper", mode="background", limits=Limits(turns=2, tokens=900))
    session.reply("", call("helper", {"n": 1}, prepared=Prepared(digest="spawn", spawning=spawning)))
    (child,) = session.state.children.open.values()
    session.take(ChildOpened(child_id=child.child_id, call_id=child.call_id, tokens=24))
    session.take(GrantReceived(command_id="more", actor="session:lead", auth="none", more=Limits(turns=9)))
    session.reply("", call("grant_child", {"child": child.child_id, "turns": 1}))
    session.reply("it has more")
    session.child_ends("done", used=Used(usage=SHORT, turns=2))
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
    session.take(QueueEdited(command_id=session.command(), order=(f"i{session.state.queue.waiting[1]}",)))
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
    session.change(ChangeTitle(title="a title"))
    session.change(ChangeMetadata(metadata={"team": "a"}))
    session.change(ChangeTask(task=Task(goal="g")))
    session.change_settings(turns_max=9)
    session.change(ChangeModel(model=msgspec.structs.replace(MODEL, name="test/other")))
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
    waiting = next(c.call_id for c in session.state.calls.by_id.values() if c.status == "requested")
    body = PreparedBody(prepared=call("extra").prepared)  # type: ignore[arg-type]
    session.take(ToolPrepared(call_id=waiting, digest=body.prepared.digest, hooks=(ruling,), body=body))
    session.unmount("extra")
    session.unmount("extra", force=True)
    session.reply("done")
    session.take(NoticeGiven(code="disk", message="nearly full", level="warning"))
    session.take(ContentErased(seq=6, by="ada", why="asked for"))
    return session


def marks() -> Session:
    """The three legs come together, a person agrees, then takes a label away; all of it is imported elsewhere."""
    read, web = ToolSpec(name="files", digest="d-files", contract="pure", labels=("private",)), ("untrusted:web",)
    session = Session(tools=(*TOOLS, read, ToolSpec(name="send", digest="d-send", traits=("egress",))))
    session.prompt("go", labels=("untrusted:mail",))
    session.reply("", call("add"))
    session.finish(labels=web)
    session.reply("", call("files"))
    session.finish()
    session.reply("", call("send"))
    (request,) = session.state.asks.open
    session.approve(request)
    session.finish()
    session.reply("sent")
    session.take(LabelsDeclassified(command_id="d1", actor="ada", labels=("private",), reason="published"))
    session.take(SessionImported(session_id="copy", epoch=2, by="ada"))
    return session


def handoff() -> Session:
    """A session that asks is handed over and goes on elsewhere, where the answer is given."""
    session = Session(policy=ASK_PAY)
    session.prompt("pay")
    session.reply("", call("pay"))
    session.nobody()
    session.take(HandoffReceived(command_id="h1", actor="ada", to="https://agents.example", session="there"))
    session.take(SessionImported(session_id="there", epoch=2, by="ada", source="s1", moved=True))
    return session


def jobs() -> Session:
    """Commands go on in the background: one is killed, one is left behind by an import."""
    session = Session()
    for number in (1, 2):
        session.prompt("go")
        session.reply("", call("pay", {"n": number}))
        (name,) = session.state.calls.by_id
        session.take(FilesKept(call_id=name, body=KeptFiles(files=(KeptFile(path="Makefile"),))))
        body = JobBody(title="make all", content=(Text(text="goes on"),))
        session.take(JobStarted(call_id=name, job_id=job_id(name), late=True, tokens=3, body=body))
        session.reply("it runs")
        if number == 1:
            session.take(KillReceived(command_id="kill-it", actor="ada", job_id=job_id(name)))
            session.take(JobFinished(job_id=job_id(name), status="cancelled", tokens=2, body=body))
    session.take(SessionImported(session_id="copy", epoch=2, by="ada"))
    return session


def skills() -> Session:
    """Skills are found and one is not; one is used, comes back behind a summary, and is left; a rewind with files."""
    model = msgspec.structs.replace(MODEL, window_tokens=6_000, max_output_tokens=500)
    session = Session(model=model, settings=Settings(keep_exchanges=1))
    key = SkillKey(source_uuid="5f3c", skill_name="brief")
    gone = FailedSkill(reference="lost", reason=UnknownSkillAlias(alias="lost"))
    known = AvailableSkill(key=key, digest="d1")
    session.take(SkillResolved(skills=(known,), failed=(gone,), digest="all", injection_bytes=20))
    found = FoundSkill(key=key, digest="d1", path="skills/brief/SKILL.md", allowed_tools=("add",))
    body = SkillBody(text="Answer in one line.")
    session.take(SkillReceived(command_id=session.command(), skill="brief", found=found, tokens=8, bytes=19, body=body))
    for n in range(4):
        session.prompt(f"{n}", tokens=50)
        session.reply(f"{n}", tokens=40, usage=SHORT)
    session.compact()
    session.reply("it counted", usage=SHORT)
    session.prompt("go on", tokens=10)
    session.reply("four", usage=SHORT)
    session.take(SkillReceived(command_id=session.command(), skill="brief", active=False))
    back = session.command()
    to_seq = log.fold_lines(session.lines[:5]).seq
    session.take(FilesRestoring(command_id=back, to_seq=to_seq, actor="ada"))
    there = log.visible(log.fold_lines(session.lines[:5]))
    session.take(RewindReceived(command_id=back, to_seq=to_seq, restored=there, files=True))
    return session


def attention() -> Session:
    """A critical signal cuts off an answer; others wait, are shown, come twice, or go for a more urgent one."""
    table = Attention(normal=always("queue"), high=always("queue"), queue_max=1)
    session = Session(settings=Settings(attention=table))
    session.signal("mail", dedupe_key="m1")
    session.signal("mail", dedupe_key="m1")
    session.signal("storm", urgency="high")
    session.signal("weather", urgency="low")
    session.prompt("watch")
    session.signal("fire", urgency="critical")
    session.crash()
    session.reply("put out")
    return session


def schedules() -> Session:
    """A schedule: times are missed and met, work is begun and overlaps, it is paused, resumed, run and removed."""
    session = Session("nightly", schedule=SchedulePlan(every_ms=HOUR, start_ms=1_000, prompt="report"))
    session.take(ScheduleComputed(since_ms=1_000, until_ms=1_000, next_ms=HOUR))
    session.at_ms = 3 * HOUR
    session.fire("w2")
    session.take(ScheduleComputed(since_ms=1_000, until_ms=3 * HOUR, due=(HOUR, 2 * HOUR), missed=1, next_ms=4 * HOUR))
    session.crash()
    first = next(iter(session.state.schedule.open))
    session.take(OccurrenceDelivered(occurrence_id=first, outcome="begun", session_id=f"nightly~{first}"))
    for action in ("run_now", "pause", "resume", "remove"):
        session.take(ScheduleReceived(command_id=session.command(), action=action))
        if action == "run_now":
            again = next(iter(session.state.schedule.open))
            session.take(OccurrenceDelivered(occurrence_id=again, outcome="overlapped", note="still at work"))
    return session


def flows() -> Session:
    """A workflow: nodes begin, are tried again, time out, fail, are skipped and stopped; it goes on and ends."""
    nodes = (
        FlowNode(name="find", agent="helper", task="find", retries=1, timeout_ms=60_000),
        FlowNode(name="sum", kind="reduce", reducer="concat", needs=("find",)),
        FlowNode(name="ask", kind="gate", question="go on?", needs=("sum",)),
        FlowNode(name="end", kind="reduce", reducer="count", needs=("ask",)),
    )
    session = Session("review", tools=(*TOOLS, HELPER), flow=FlowGraph(nodes=nodes))
    session.take(FlowReceived(command_id="begin", body=FlowBody(input="the plan")))
    made = NodeBody(calls=(NodeCall(tool="helper", args={"task": "find"}, prepared=Prepared(digest="find")),))
    session.take(NodeComputed(node="find", attempt=1, calls=1, body=made))
    session.fire()
    session.take(NodeComputed(node="find", attempt=2, outcome="failed", reason="nothing found", body=NodeBody()))
    session.wake()
    session.crash()
    session.interrupt()
    session.wake()
    session.take(NodeComputed(node="find", attempt=4, calls=1, body=made))
    child = next(each for each in session.state.children.open.values() if not each.stopping)
    end = child_end_id(child.child_id)
    session.take(ChildFinished(command_id=end, child_id=child.child_id, call_id=child.call_id, used=Used()))
    session.take(NodeComputed(node="sum", attempt=1, body=NodeBody(output="found")))
    session.take(NodeComputed(node="ask", attempt=1, outcome="closed", reason="a person said no", body=NodeBody()))
    return session


def worktrees() -> Session:
    """A child in a worktree of its own: a merge that conflicts, a person who has it made again, its removal."""
    tree = Worktree(repository="/r", folder="/t", branch="windlass/t", base="0" * 40)
    session = Session("lead~c1.0", start=False)
    session.take(
        SessionStarted(
            command_id="start",
            session_id="lead~c1.0",
            epoch=1,
            setup=setup(),
            parent_id="lead",
            parent_call_id="c1.0",
            root_id="lead",
            scope="c1.0",
            depth=1,
            worktree=tree,
        )
    )
    session.prompt("write")
    session.reply("written")
    session.take(WorktreeMerged(outcome="conflict", conflicts=1, body=MergeBody(files=("a.txt",))))
    session.nobody()
    said = AnswerBody(answers=(Answer(index=0, selected=("merge again",)),))
    session.answer(next(iter(session.state.asks.open)), body=said)
    session.take(WorktreeMerged(outcome="merged", commit="1" * 40))
    session.take(WorktreeRemoved())
    return session


def machines() -> Session:
    """A machine: a program, a time, an end; then it begins again and is interrupted in its first state."""
    spec = MachineSpec(
        name="release",
        first="build",
        states=(
            MachineState(name="build", kind="script", command=("make",), next=("nap",)),
            MachineState(name="nap", kind="timer", after_ms=60_000, next=("done",)),
            MachineState(name="done", kind="terminal", reason="released"),
        ),
    )
    run = ToolSpec(name="run_state", digest="d-run", contract="at_most_once")
    session = Session("released", tools=(*TOOLS, run), machine=spec, routing="explicit")
    for command_id in ("begin", "again"):
        session.take(MachineReceived(command_id=command_id, body=MachineBody(input={"branch": "main"})))
        made = NodeCall(tool="run_state", args={}, prepared=Prepared(digest="d1"))
        visit = session.state.machine.visit
        session.take(MachineComputed(visit=visit, work="call", body=ComputedBody(input={}, call=made)))
        if command_id == "again":
            session.interrupt()
            break
        session.finish(session.running()[-1])
        session.fire()
    return session


def growth() -> Session:
    """A workflow that grows: a phase passes, another one blocks, a node pauses before it is tried again."""
    nodes = (
        FlowNode(name="design", kind="phase", agent="helper", task="design", judge="helper", unlocks=("pay",)),
        FlowNode(name="end", kind="reduce", reducer="count", needs=("design",)),
    )
    session = Session("grown", tools=(*TOOLS, HELPER), flow=FlowGraph(nodes=nodes))
    session.take(FlowReceived(command_id="begin", body=FlowBody(input="the plan")))
    more = (
        FlowNode(name="measure", kind="phase", agent="helper", task="measure", when="args.output == 1"),
        FlowNode(name="again", kind="reduce", reducer="count", needs=("design",), retries=1, retry_wait_ms=1_000),
    )
    session.take(NodesReceived(command_id="more", nodes=more, before=("end",)))
    session.take(NodeComputed(node="design", attempt=1, body=NodeBody(output="as asked")))
    session.take(NodeComputed(node="measure", attempt=1, outcome="failed", reason="it did not pass", body=NodeBody()))
    session.take(NodeComputed(node="again", attempt=1, outcome="failed", reason="not yet", body=NodeBody()))
    session.fire()
    session.take(NodeComputed(node="again", attempt=2, body=NodeBody(output=1)))
    return session


def servers() -> Session:
    """MCP servers: one is connected, changes and is frozen, another is lost."""
    session = Session()
    known = McpBody(about="clock 1.0", tools=(McpTool(name="clock__now", tool="now", read_only=True),))
    session.take(
        McpConnected(
            server="clock", status="connected", transport="stdio", launch="l1", listing="t1", tools=1, body=known
        )
    )
    session.take(McpConnected(server="clock", status="frozen", transport="stdio", launch="l1", listing="t2"))
    gone = McpBody(why="it does not answer")
    session.take(McpConnected(server="far", status="lost", transport="http", launch="l2", body=gone))
    return session


SCENARIOS: dict[str, Callable[[], Session]] = {
    made.__name__: made
    for made in (
        *(tools, approvals, questions, failures, context, asides, owners),
        *(
            fork,
            queue,
            output,
            toolset,
            children,
            trees,
            settled,
            granted,
            upgrades,
            marks,
            jobs,
            attention,
            schedules,
            skills,
            flows,
            worktrees,
            machines,
            growth,
            servers,
            handoff,
            selected,
        ),
    )
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
