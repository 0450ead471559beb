"""Facts for a session under random pressure: each maker draws one that fits, nearly fits or does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from tests.kernel.session import MODEL, call, malformed
from windlass.events.base import Fact
from windlass.events.changes import (
    AnyChange,
    ChangeAgent,
    ChangeGrants,
    ChangeMetadata,
    ChangeMode,
    ChangeModel,
    ChangePins,
    ChangeReceived,
    ChangeSettings,
    ChangeTask,
    ChangeTitle,
)
from windlass.events.commands import CommandRefused, PromptBody, PromptReceived, QueueBody, QueueEdited
from windlass.events.context import CompactReceived, ContextArchived, ContextPagedIn, PageBody, UndoReceived
from windlass.events.hooks import HookRuling
from windlass.events.questions import Answer, AnswerBody, AnswerReceived, Question, QuestionBody
from windlass.events.runs import CancelReceived, InterruptReceived, PartialBody, WakeReceived
from windlass.events.sessions import (
    ContentErased,
    HandoffReceived,
    NoticeGiven,
    RewindReceived,
    SessionForked,
    SessionImported,
    SessionResumed,
    SessionShutDown,
    SessionStarted,
)
from windlass.events.signals import SignalReceived
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
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import (
    CallReceived,
    PreparedBody,
    ResultBody,
    ResultReceived,
    ToolAsked,
    ToolFinished,
    ToolPrepared,
    ToolSettled,
    ToolSuspended,
    ToolTimedOut,
    UserCallBody,
)
from windlass.events.tools.jobs import JobBody, JobFinished, JobStarted, JobStatus, KillReceived
from windlass.events.tools.labels import LabelsDeclassified
from windlass.events.tools.mcp import McpConnected
from windlass.events.tools.permissions import ApproverMissed, FeedbackBody, PermissionApproved, PermissionDenied
from windlass.events.tools.toolset import MountReceived, UnmountReceived
from windlass.events.trees.accounts import ChildSettled, GrantReceived
from windlass.events.trees.children import ChildBody, ChildFinished, ChildMoved, ChildOpened, Used
from windlass.events.turns import (
    AskBody,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    OutputCheck,
    Prepared,
    ReplyBody,
    ReplyCall,
)
from windlass.events.values.blocks import Text
from windlass.events.values.failures import failure
from windlass.events.values.ids import child_end_id, child_id, child_settled_id, job_id
from windlass.events.values.policy import Grant, Policy
from windlass.events.values.setup import AgentRef, Limits, RunOptions, Setup, Spawning, Task, Workspace
from windlass.events.values.tools import ToolSpec
from windlass.events.values.usage import Price, Usage
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
from windlass.kernel import log
from windlass.kernel.phases import BackingOff, Compacting
from windlass.kernel.state import State

if TYPE_CHECKING:
    from tests.kernel.chaos import Chaos

FAILURES: tuple[Any, ...] = (
    "rate_limited",
    "server_error",
    "context_exceeded",
    "auth",
    "invalid_request",
    "truncated_reply",
)
TOOLS_OF_MODELS = (
    "add", "pay", "put", "risky", "ui", "hidden", "nowhere", "ask_user", "todo", "plan", "wait", "wait", "wait", "task", "load_tools",
    "complete_task",
)  # fmt: skip
SKILLS = ("brief", "polite", "terse")
TOOLS_OF_PEOPLE = ("add", "pay", "pay", "pay", "put", "risky", "risky", "ui", "ask_user", "todo", "nowhere")


def arguments(c: Chaos, tool: str) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = {
        "ask_user": {"question": "which?", "options": ["a", "b"]},
        "todo": {"todos": [{"todo_id": "1", "content": "x"}]},
        "plan": {"summary": "s", "content": "do it"},
        "load_tools": {"names": ["hidden"]},
        "task": {"goal": "g"},
    }
    if tool == "wait":
        return {"for_ms": 1 + c.pick(100_000)}
    return known.get(tool) or {"n": c.pick(6)}


def reply_call(c: Chaos) -> ReplyCall:
    tool = c.one(("add", "put", "risky", "pay") if c.chance(3) else TOOLS_OF_MODELS)
    if c.chance(12):
        return malformed(tool, "{")
    if c.chance(8):
        return ReplyCall(call=call(tool, arguments(c, tool)).call)
    if c.chance(12):
        return call(tool, arguments(c, tool), prepared=Prepared(digest="bad", errors=("$.n: wrong",)))
    return call(tool, arguments(c, tool), provider_call_id=c.one([None, "", "same", "same"]))


def some_child(c: Chaos) -> tuple[str, str]:
    known = list(c.session.state.children.open) or ["c1.0"]
    call = c.one(known)
    return child_id(c.session.state.session_id, call), call


def child_opened(c: Chaos) -> Fact:
    child, call = some_child(c)
    return ChildOpened(child_id=child, call_id=call)


def child_moved(c: Chaos) -> Fact:
    child, call = some_child(c)
    words: tuple[Literal["working", "asked", "sleeping"], ...] = ("working", "asked", "sleeping")
    status = c.one(words)
    return ChildMoved(
        command_id=c.command(),
        child_id=child,
        call_id=call,
        child_seq=max(0, c.session.state.seq + c.pick(3) - 1),
        status=status,
        waiting_for=("p3",) if status == "asked" else (),
        wake_at_ms=c.session.at_ms + 1_000 if status == "sleeping" else None,
    )


def child_end(c: Chaos) -> Fact:
    child, call = some_child(c)
    name = child_end_id(child) if not c.chance(8) else c.command()
    held = None if c.chance(2) else Used(turns=c.pick(3), calls=c.pick(2))
    used = None if held is None else Used(turns=1)
    body = ChildBody(content=(Text(text="x"),))
    return ChildFinished(command_id=name, child_id=child, call_id=call, body=body, used=used, held=held)


def grant_received(c: Chaos) -> Fact:
    parent = c.session.state.parent_id or "nobody"
    more = Limits(tokens=c.pick(5_000), turns=c.pick(3))
    return GrantReceived(command_id=c.command(), actor=f"session:{parent}", auth="none", more=more)


def child_settled(c: Chaos) -> Fact:
    call = c.one(list(c.session.state.children.unsettled) or ["c1.0"])
    child = child_id(c.session.state.session_id, call)
    name = child_settled_id(child) if not c.chance(8) else c.command()
    return ChildSettled(command_id=name, child_id=child, call_id=call, used=Used(turns=1 + c.pick(3)))


def job_start(c: Chaos) -> Fact:
    name = c.call_id("started")
    call = c.session.state.calls.by_id.get(name)
    derived = job_id(name, call.attempt if call is not None else 1) if not c.chance(8) else "j1.9"
    body = JobBody(title="t", content=(Text(text="goes on"),))
    return JobStarted(call_id=name, job_id=derived, detached=c.chance(4), body=body)


def restoring(c: Chaos) -> Fact:
    begun = c.session.state.workspace.restoring
    if begun is not None and not c.chance(4):
        return FilesRestoring(command_id=begun.command_id, to_seq=begun.to_seq, given_up=True)
    return FilesRestoring(command_id=c.command(), to_seq=c.pick(c.session.state.seq + 2))


def skills_found(c: Chaos) -> Fact:
    known = tuple(AvailableSkill(key=skill_key(name), digest=f"d{c.pick(2)}") for name in SKILLS)
    gone = (FailedSkill(reference="x", reason=UnknownSkillAlias(alias="x")),) if c.chance(3) else ()
    return SkillResolved(skills=known, failed=gone, digest=f"all{c.pick(3)}")


def skill_key(name: str) -> SkillKey:
    return SkillKey(source_uuid="u", skill_name=name)


def skill_wanted(c: Chaos) -> Fact:
    name = c.one(SKILLS)
    if c.chance(3):
        return SkillReceived(command_id=c.command(), skill=name, active=False)
    if c.chance(5):
        return SkillReceived(command_id=c.command(), skill="x", failure=UnknownSkillAlias(alias="x"))
    found = FoundSkill(
        key=skill_key(name), digest=f"d{c.pick(2)}", allowed_tools=("add", "pay") if c.chance(4) else None
    )
    body = SkillBody(text="be brief")
    return SkillReceived(command_id=c.command(), skill=name, found=found, most=2, tokens=5, bytes=8, body=body)


def labels(c: Chaos) -> tuple[str, ...]:
    return c.one([("untrusted:web",), ("private",), ("private", "untrusted"), ("pii",)]) if c.chance(12) else ()


def declassified(c: Chaos) -> Fact:
    held = [*c.session.state.labels.held, "private"]
    return LabelsDeclassified(command_id=c.command(), labels=(c.one(held),), reason=c.one(["seen", "seen", ""]))


def user_call(c: Chaos) -> Fact:
    rare = isinstance(c.session.state.phase, BackingOff | Compacting)
    tool = "helper" if rare and c.chance(3) else c.one(TOOLS_OF_PEOPLE)
    prepared = Prepared(digest="u") if not c.chance(4) else None
    if prepared is not None and tool == "helper" and c.chance(2):
        spawning = Spawning(agent="a", mode=c.one(("foreground", "background", "background", "detached")))
        prepared = Prepared(digest=f"h{c.pick(9)}", spawning=spawning)
    return CallReceived(
        command_id=c.command(), tool=tool, body=UserCallBody(args=arguments(c, tool), prepared=prepared)
    )


def prompt(c: Chaos) -> Fact:
    options = None
    if c.chance(6):
        options = RunOptions(
            limits=Limits(turns=1 + c.pick(3)) if c.chance(2) else Limits(tokens=2_000),
            tools=("add",) if c.chance(3) else None,
        )
    hooks = (HookRuling(hook_id="h", point="prompt", outcome="denied"),) if c.chance(15) else ()
    return PromptReceived(
        command_id=c.command(), behavior=c.one([None, None, "steer", "follow_up"]), tokens=c.pick(200), options=options,
        hooks=hooks, labels=labels(c), body=PromptBody(content=(Text(text="hi"),)),
    )  # fmt: skip


def asked_aside(c: Chaos) -> Fact:
    """A tool's or a judge's question to a model, of the session's own or a dearer one."""
    lane: Any = c.one(["judge", "tool"])
    name = c.call_id("started") if lane == "tool" or c.chance(2) else None
    model = c.one([MODEL, msgspec.structs.replace(MODEL, name="test/judge", price=Price(input=9_000_000, output=9))])
    return ModelAsked(
        lane=lane, call_id=name, model=model, tokens=c.pick(3_000), max_output_tokens=c.one([None, 50]),
        attempt=1 + c.pick(3), body=AskBody(prompt="well?"),
    )  # fmt: skip


def lane_of(c: Chaos, request_id: str) -> Any:
    request = c.session.state.requests.open.get(request_id)
    return request.lane if request is not None and not c.chance(20) else c.one(["main", "tool"])


def replied(c: Chaos) -> Fact:
    request_id = c.request_id()
    calls = [reply_call(c) for _ in range(c.pick(4))] if not c.chance(3) else []
    calls = [
        ReplyCall(call=msgspec.structs.replace(found.call, ordinal=i), prepared=found.prepared)
        for i, found in enumerate(calls)
    ]
    blocks = () if c.chance(6) else (Text(text="words"),)
    finish: Any = (
        c.one(["stop", "stop", "length", "refusal", "content_filter", "pause"])
        if not calls or c.chance(6)
        else "tool_calls"
    )
    output = OutputCheck(valid=c.chance(2), errors=("no",)) if c.chance(2) else None
    return ModelReplied(
        request_id=request_id, lane=lane_of(c, request_id), finish=finish, usage=Usage(input_tokens=c.pick(5_000), output_tokens=c.pick(500)),
        calls=len(calls), empty=not blocks and not calls, tokens=c.pick(3_000), bytes=100,
        body=ReplyBody(blocks=blocks, calls=tuple(calls), output=output),
    )  # fmt: skip


def model_failed(c: Chaos) -> Fact:
    hint = c.one([None, None, 5_000, 120_000])
    request_id = c.request_id()
    return ModelFailed(
        request_id=request_id, lane=lane_of(c, request_id), attempt=1 + c.pick(7),
        failure=failure(c.one(FAILURES), "no", retry_after_ms=hint), sample=0.25,
    )  # fmt: skip


def finished(c: Chaos) -> Fact:
    changes = (FileChange(path="a", operation="update", lines_added=1),) if c.chance(5) else ()
    return ToolFinished(
        call_id=c.call_id("started"),
        ok=not c.chance(4),
        tokens=c.pick(4_000),
        labels=labels(c),
        changes=changes,
        hooks=(HookRuling(hook_id="h", point="after_tool", outcome="denied", fatal=True),) if c.chance(40) else (),
        body=ResultBody(content=(Text(text="r"),)),
    )


def prepared(c: Chaos) -> Fact:
    hooks = (HookRuling(hook_id="h", point="before_tool", outcome="denied", fatal=c.chance(3)),) if c.chance(6) else ()
    traits: Any = c.one([None, None, ("egress",)])
    found = Prepared(digest=f"p{c.pick(4)}", labels=labels(c), traits=traits)
    return ToolPrepared(
        call_id=c.call_id("requested"),
        digest=found.digest,
        changed=c.chance(3),
        labels=found.labels,
        traits=found.traits,
        hooks=hooks,
        body=PreparedBody(prepared=found, args=arguments(c, "add")),
    )


def approved(c: Chaos) -> Fact:
    scope: Any = c.one(["once", "once", "session", "pattern"])
    name = c.ask_id("permission")
    ask = c.session.state.asks.open.get(name)
    return PermissionApproved(
        command_id=c.command(),
        request_id=name,
        digest=ask.digest if ask is not None and not c.chance(20) else None,
        scope=scope,
        pattern="*" if scope == "pattern" else None,
    )


def denied(c: Chaos) -> Fact:
    return PermissionDenied(
        command_id=c.command(), request_id=c.ask_id("permission"), stop=c.chance(5), body=FeedbackBody(feedback="no")
    )


def answer(c: Chaos) -> Fact:
    return AnswerReceived(
        command_id=c.command(), question_id=c.ask_id("question"), outcome=c.one(["answered", "declined", "cancelled"]),
        action=c.action(), body=AnswerBody(answers=(Answer(index=0, selected=("a",)),), edited="new" if c.chance(3) else None),
    )  # fmt: skip


def missed(c: Chaos) -> Fact:
    state = c.session.state
    return ApproverMissed(
        request_ids=(*state.asks.open, *(x.call_id for x in state.calls.by_id.values() if x.status == "delegated"))
    )


def fired(c: Chaos) -> Fact:
    known = list(c.session.state.timers.open)
    name = c.one(known) if known else "w9"
    if name in c.session.state.timers.open:
        c.session.at_ms = max(c.session.at_ms, c.session.state.timers.open[name].at_ms)
    return TimerFired(timer_id=name)


def archived(c: Chaos) -> Fact:
    return ContextArchived(paged_seq=c.one(c.session.state.archive.paged or [7]), pages=c.pick(4))


def resumed(c: Chaos) -> Fact:
    c.session.state = c.session.folded()
    c.session.epoch += 1
    tools = None
    if c.chance(3):
        known = c.session.state.toolset.tools
        tools = tuple(
            msgspec.structs.replace(spec, digest=spec.digest + "'") if c.chance(4) else spec
            for spec in known.values()
            if not c.chance(8)
        )
    terms = None
    if c.chance(4):
        before = c.session.state.setup.terms
        assert before is not None
        terms = msgspec.structs.replace(
            before,
            model=c.one([before.model, msgspec.structs.replace(MODEL, name="test/other", window_tokens=8_000)]),
            policy=c.one([before.policy, Policy(), Policy(default="ask")]),
            run_limits=c.one([before.run_limits, Limits(), Limits(tokens=90_000)]),
            settings=c.one([before.settings, msgspec.structs.replace(before.settings, keep_exchanges=2)]),
            mode=c.one([before.mode, "interactive", "autopilot"]),
        )
    agent = AgentRef(name="clerk", digest="d2") if c.chance(3) else None
    return SessionResumed(epoch=c.session.epoch, tools=tools, agent=agent, terms=terms)


def forked(c: Chaos) -> Fact:
    """The same log goes on as if it were a fork of itself: all that was open must be closed."""
    c.session.epoch += 1
    return SessionForked(
        session_id="f", origin_id="s1", at_seq=c.session.state.seq, origin_hash=c.session.hash, epoch=c.session.epoch
    )


def imported(c: Chaos) -> Fact:
    c.session.epoch += 1
    return SessionImported(session_id="i", epoch=c.session.epoch, by="x", moved=c.chance(2))


def handed_over(c: Chaos) -> Fact:
    return HandoffReceived(command_id=c.command(), to="https://elsewhere.invalid", session=c.one(["h", "h", ""]))


def change(c: Chaos) -> Fact:
    history = c.session.state.history.items
    options: list[AnyChange] = [
        ChangeMode(mode=c.one(["interactive", "plan", "autopilot"])),
        ChangeTitle(title="t"),
        ChangeMetadata(metadata={"k": c.one(["v", None])}),
        ChangeTask(task=Task(goal="g")),
        ChangeModel(model=msgspec.structs.replace(MODEL, name="test/other", window_tokens=c.one([8_000, 100_000]))),
        ChangePins(pin=(c.one(history).seq,)) if history else ChangePins(pin=(99,)),
        ChangeGrants(add=(Grant(grant_id="gx", tool="pay"),)) if c.chance(2) else ChangeGrants(revoke=("gx",)),
        ChangeAgent(agent=c.one(["critic", "reader", ""]), only_reads=c.chance(2)),
        ChangeSettings(
            settings=msgspec.structs.replace(
                c.session.state.setup.settings,
                on_busy=c.one(["enqueue", "steer", "interrupt", "reject"]),
                tool_order=c.one(["parallel", "sequential"]),
            )
        ),
    ]
    return ChangeReceived(command_id=c.command(), change=c.one(options))


def rewind(c: Chaos) -> Fact:
    """To an append boundary, with what was visible there."""
    ends = [0, *c.session.ends]
    last = c.one(ends) if not c.chance(10) else c.session.state.seq + 5
    there = log.fold_lines(c.session.lines[: ends.index(last)]) if last in ends else State()
    return RewindReceived(command_id=c.command(), to_seq=last, restored=log.visible(there))


def undo(c: Chaos) -> Fact:
    restored = log.before_compaction(c.session.lines) if c.session.state.compaction.count else ()
    return UndoReceived(command_id=c.command(), restored=restored)


def mount(c: Chaos) -> Fact:
    name = c.one(["add", "extra", "more"])
    return MountReceived(command_id=c.command(), tools=(ToolSpec(name=name, digest=f"d{c.pick(3)}", contract="pure"),))


def queue_edit(c: Chaos) -> Fact:
    ids = [f"i{seq}" for seq in c.session.state.queue.waiting if not c.chance(3)]
    order = tuple(reversed(ids)) if not c.chance(10) else ("i999",)
    edited = [name for name in ids if c.chance(2)]
    body = QueueBody(edits={name: PromptBody(content=(Text(text="again"),)) for name in edited})
    return QueueEdited(command_id=c.command(), order=order, tokens=dict.fromkeys(edited, 5), body=body)


MAKERS: dict[type[Fact], Callable[[Chaos], Fact]] = {
    McpConnected: lambda c: McpConnected(server=c.one("ab"), status=c.one(("connected", "frozen", "lost")), transport="stdio", launch="l"),
    SessionStarted: lambda c: SessionStarted(command_id=c.command(), session_id="again", epoch=9, setup=Setup(agent=AgentRef(name="x"), model=MODEL)),
    SessionResumed: resumed,
    SessionForked: forked,
    SessionImported: imported,
    HandoffReceived: handed_over,
    SessionShutDown: lambda c: SessionShutDown(),
    ChangeReceived: change,
    RewindReceived: rewind,
    WorkspaceChanged: lambda c: WorkspaceChanged(workspace=Workspace(cwd="w")),
    InstructionsRendered: lambda c: InstructionsRendered(digest=f"i{c.pick(3)}", tokens=50, body=InstructionsBody(text="be good")),
    NoticeGiven: lambda c: NoticeGiven(code="n", message="m"),
    ContentErased: lambda c: ContentErased(seq=1, by="x", why="y"),
    PromptReceived: prompt,
    WakeReceived: lambda c: WakeReceived(command_id=c.command()),
    InterruptReceived: lambda c: InterruptReceived(command_id=c.command(), jobs=c.chance(5), tokens=c.pick(2) * 5, body=PartialBody(text="half")),
    CancelReceived: lambda c: CancelReceived(command_id=c.command(), jobs=c.chance(3)),
    QueueEdited: queue_edit,
    SignalReceived: lambda c: SignalReceived(command_id=c.command(), kind="s", urgency=c.one(["critical", "high", "normal", "low"]), dedupe_key=c.one([None, "k1", "k2"])),
    CommandRefused: lambda c: CommandRefused(command_id=f"r{c.command()}", code="no", message="no"),
    TimerFired: fired,
    ModelAsked: asked_aside,
    ModelReplied: replied,
    ModelFailed: model_failed,
    ToolPrepared: prepared,
    ToolFinished: finished,
    ToolTimedOut: lambda c: ToolTimedOut(call_id=c.call_id("started"), timeout_ms=5),
    ToolSuspended: lambda c: ToolSuspended(call_id=c.call_id("started")),
    ToolAsked: lambda c: ToolAsked(call_id=c.call_id("started"), body=QuestionBody(message="?", questions=(Question(question="?"),))),
    ToolSettled: lambda c: ToolSettled(command_id=c.command(), call_id=c.call_id("unknown"), outcome=c.one(["happened", "did_not_happen", "run_again"])),
    ResultReceived: lambda c: ResultReceived(command_id=c.command(), call_id=c.call_id("delegated", "suspended"), body=ResultBody(content=(Text(text="x"),))),
    ChildFinished: child_end,
    ChildOpened: child_opened,
    ChildMoved: child_moved,
    ChildSettled: child_settled,
    GrantReceived: grant_received,
    JobStarted: job_start,
    JobFinished: lambda c: JobFinished(job_id=c.job_id(), status=c.one(get_args(JobStatus)), tokens=c.pick(9), body=JobBody(title="t", content=(Text(text="x"),))),
    KillReceived: lambda c: KillReceived(command_id=c.command(), job_id=c.job_id()),
    CallReceived: user_call,
    MountReceived: mount,
    UnmountReceived: lambda c: UnmountReceived(command_id=c.command(), tools=(c.one(["add", "extra", "more", "pay"]),), force=c.chance(2)),
    PermissionApproved: approved,
    PermissionDenied: denied,
    LabelsDeclassified: declassified,
    FilesKept: lambda c: FilesKept(call_id=c.call_id("started"), body=KeptFiles(files=(KeptFile(path="a"),))),
    FilesRestoring: restoring,
    SkillResolved: skills_found,
    SkillReceived: skill_wanted,
    ApproverMissed: missed,
    AnswerReceived: answer,
    CompactReceived: lambda c: CompactReceived(command_id=c.command()),
    UndoReceived: undo,
    ContextArchived: archived,
    ContextPagedIn: lambda c: ContextPagedIn(query="q", tokens=9, body=PageBody(text="old")),
}  # fmt: skip
"""One maker for each fact that a session may be told."""

OFTEN: tuple[type[Fact], ...] = (
    *(PromptReceived,) * 3,
    *(ModelReplied,) * 6,
    *(ModelFailed,) * 2,
    *(ToolFinished,) * 4,
    *(ToolPrepared,) * 2,
    *(CallReceived,) * 2,
    PermissionApproved,
    AnswerReceived,
    ApproverMissed,
    TimerFired,
    *MAKERS,
)
"""What is drawn from when nothing rarer is wanted."""
