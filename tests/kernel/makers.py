"""Facts for a session under random pressure: each maker draws one that fits, nearly fits or does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tests.kernel.session import MODEL, call, malformed
from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import permissions as pe
from windlass.events import questions as qe
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events import turns as te
from windlass.events.base import Fact
from windlass.events.blocks import Text
from windlass.events.failures import failure
from windlass.events.hooks import HookRuling
from windlass.events.specs import AgentRef, Grant, Limits, Policy, RunOptions, Setup, Task, ToolSpec, Workspace
from windlass.events.turns import OutputCheck, Prepared
from windlass.events.usage import Price, Usage
from windlass.kernel import log
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


def reply_call(c: Chaos) -> te.ReplyCall:
    tool = c.one(("add", "put", "risky", "pay") if c.chance(3) else TOOLS_OF_MODELS)
    if c.chance(12):
        return malformed(tool, "{")
    if c.chance(8):
        return te.ReplyCall(call=call(tool, arguments(c, tool)).call)
    if c.chance(12):
        return call(tool, arguments(c, tool), prepared=Prepared(digest="bad", errors=("$.n: wrong",)))
    return call(tool, arguments(c, tool), provider_call_id=c.one([None, "", "same", "same"]))


def user_call(c: Chaos) -> Fact:
    tool = c.one(TOOLS_OF_PEOPLE)
    prepared = Prepared(digest="u") if not c.chance(4) else None
    return ce.CallReceived(
        command_id=c.command(), tool=tool, body=ce.UserCallBody(args=arguments(c, tool), prepared=prepared)
    )


def prompt(c: Chaos) -> Fact:
    options = None
    if c.chance(6):
        options = RunOptions(
            limits=Limits(turns=1 + c.pick(3)) if c.chance(2) else Limits(tokens=2_000),
            tools=("add",) if c.chance(3) else None,
        )
    hooks = (HookRuling(hook_id="h", point="prompt", outcome="denied"),) if c.chance(15) else ()
    return re_.PromptReceived(
        command_id=c.command(), behavior=c.one([None, None, "steer", "follow_up"]), tokens=c.pick(200), options=options,
        hooks=hooks, body=re_.PromptBody(content=(Text(text="hi"),)),
    )  # fmt: skip


def asked_aside(c: Chaos) -> Fact:
    """A tool's or a judge's question to a model, of the session's own or a dearer one."""
    lane: Any = c.one(["judge", "tool"])
    name = c.call_id("started") if lane == "tool" or c.chance(2) else None
    model = c.one([MODEL, msgspec.structs.replace(MODEL, name="test/judge", price=Price(input=9_000_000, output=9))])
    return te.ModelAsked(
        lane=lane, call_id=name, model=model, tokens=c.pick(3_000), max_output_tokens=c.one([None, 50]),
        attempt=1 + c.pick(3), body=te.AskBody(prompt="well?"),
    )  # fmt: skip


def lane_of(c: Chaos, request_id: str) -> Any:
    request = c.session.state.requests.get(request_id)
    return request.lane if request is not None and not c.chance(20) else c.one(["main", "tool"])


def replied(c: Chaos) -> Fact:
    request_id = c.request_id()
    calls = [reply_call(c) for _ in range(c.pick(4))] if not c.chance(3) else []
    calls = [
        te.ReplyCall(call=msgspec.structs.replace(found.call, ordinal=i), prepared=found.prepared)
        for i, found in enumerate(calls)
    ]
    blocks = () if c.chance(6) else (Text(text="words"),)
    finish: Any = (
        c.one(["stop", "stop", "length", "refusal", "content_filter", "pause"])
        if not calls or c.chance(6)
        else "tool_calls"
    )
    output = OutputCheck(valid=c.chance(2), errors=("no",)) if c.chance(2) else None
    return te.ModelReplied(
        request_id=request_id, lane=lane_of(c, request_id), finish=finish, usage=Usage(input_tokens=c.pick(5_000), output_tokens=c.pick(500)),
        calls=len(calls), empty=not blocks and not calls, tokens=c.pick(3_000), bytes=100,
        body=te.ReplyBody(blocks=blocks, calls=tuple(calls), output=output),
    )  # fmt: skip


def model_failed(c: Chaos) -> Fact:
    hint = c.one([None, None, 5_000, 120_000])
    request_id = c.request_id()
    return te.ModelFailed(
        request_id=request_id, lane=lane_of(c, request_id), attempt=1 + c.pick(7),
        failure=failure(c.one(FAILURES), "no", retry_after_ms=hint), sample=0.25,
    )  # fmt: skip


def finished(c: Chaos) -> Fact:
    changes = (se.FileChange(path="a", operation="update", lines_added=1),) if c.chance(5) else ()
    return ce.ToolFinished(
        call_id=c.call_id("started"),
        ok=not c.chance(4),
        tokens=c.pick(4_000),
        changes=changes,
        hooks=(HookRuling(hook_id="h", point="after_tool", outcome="denied", fatal=True),) if c.chance(40) else (),
        body=ce.ResultBody(content=(Text(text="r"),)),
    )


def prepared(c: Chaos) -> Fact:
    hooks = (HookRuling(hook_id="h", point="before_tool", outcome="denied", fatal=c.chance(3)),) if c.chance(6) else ()
    found = Prepared(digest=f"p{c.pick(4)}")
    return ce.ToolPrepared(
        call_id=c.call_id("requested"),
        digest=found.digest,
        changed=c.chance(3),
        hooks=hooks,
        body=ce.PreparedBody(prepared=found, args=arguments(c, "add")),
    )


def approved(c: Chaos) -> Fact:
    scope: Any = c.one(["once", "once", "session", "pattern"])
    return pe.PermissionApproved(
        command_id=c.command(),
        request_id=c.ask_id("permission"),
        scope=scope,
        pattern="*" if scope == "pattern" else None,
    )


def denied(c: Chaos) -> Fact:
    return pe.PermissionDenied(
        command_id=c.command(), request_id=c.ask_id("permission"), stop=c.chance(5), body=pe.FeedbackBody(feedback="no")
    )


def answer(c: Chaos) -> Fact:
    return qe.AnswerReceived(
        command_id=c.command(), question_id=c.ask_id("question"), outcome=c.one(["answered", "declined", "cancelled"]),
        action=c.action(), body=qe.AnswerBody(answers=(qe.Answer(index=0, selected=("a",)),), edited="new" if c.chance(3) else None),
    )  # fmt: skip


def missed(c: Chaos) -> Fact:
    state = c.session.state
    return pe.ApproverMissed(
        request_ids=(*state.asks, *(x.call_id for x in state.calls.values() if x.status == "delegated"))
    )


def fired(c: Chaos) -> Fact:
    known = list(c.session.state.timers)
    name = c.one(known) if known else "w9"
    if name in c.session.state.timers:
        c.session.at_ms = max(c.session.at_ms, c.session.state.timers[name].at_ms)
    return re_.TimerFired(timer_id=name)


def archived(c: Chaos) -> Fact:
    return xe.ContextArchived(paged_seq=c.one(c.session.state.paged or [7]), pages=c.pick(4))


def resumed(c: Chaos) -> Fact:
    c.session.state = c.session.folded()
    c.session.epoch += 1
    tools = None
    if c.chance(3):
        known = c.session.state.tools
        tools = tuple(
            msgspec.structs.replace(spec, digest=spec.digest + "'") if c.chance(4) else spec
            for spec in known.values()
            if not c.chance(8)
        )
    terms = None
    if c.chance(4):
        before = c.session.state.terms
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
    return se.SessionResumed(epoch=c.session.epoch, tools=tools, agent=agent, terms=terms)


def forked(c: Chaos) -> Fact:
    """The same log goes on as if it were a fork of itself: all that was open must be closed."""
    c.session.epoch += 1
    return se.SessionForked(
        session_id="f", origin_id="s1", at_seq=c.session.state.seq, origin_hash=c.session.hash, epoch=c.session.epoch
    )


def change(c: Chaos) -> Fact:
    history = c.session.state.history
    options: list[se.AnyChange] = [
        se.ChangeMode(mode=c.one(["interactive", "plan", "autopilot"])),
        se.ChangeTitle(title="t"),
        se.ChangeMetadata(metadata={"k": c.one(["v", None])}),
        se.ChangeTask(task=Task(goal="g")),
        se.ChangeModel(model=msgspec.structs.replace(MODEL, name="test/other", window_tokens=c.one([8_000, 100_000]))),
        se.ChangePins(pin=(c.one(history).seq,)) if history else se.ChangePins(pin=(99,)),
        se.ChangeGrants(add=(Grant(grant_id="gx", tool="pay"),)) if c.chance(2) else se.ChangeGrants(revoke=("gx",)),
        se.ChangeSettings(
            settings=msgspec.structs.replace(
                c.session.state.settings,
                on_busy=c.one(["enqueue", "steer", "interrupt", "reject"]),
                tool_order=c.one(["parallel", "sequential"]),
            )
        ),
    ]
    return se.ChangeReceived(command_id=c.command(), change=c.one(options))


def rewind(c: Chaos) -> Fact:
    """To an append boundary, with what was visible there."""
    ends = [0, *c.session.ends]
    last = c.one(ends) if not c.chance(10) else c.session.state.seq + 5
    there = log.fold_lines(c.session.lines[: ends.index(last)]) if last in ends else State()
    return se.RewindReceived(command_id=c.command(), to_seq=last, restored=log.visible(there))


def undo(c: Chaos) -> Fact:
    restored = log.before_compaction(c.session.lines) if c.session.state.compaction.count else ()
    return xe.UndoReceived(command_id=c.command(), restored=restored)


def mount(c: Chaos) -> Fact:
    name = c.one(["add", "extra", "more"])
    return ce.MountReceived(
        command_id=c.command(), tools=(ToolSpec(name=name, digest=f"d{c.pick(3)}", contract="pure"),)
    )


def queue_edit(c: Chaos) -> Fact:
    ids = [f"i{seq}" for seq in c.session.state.queue if not c.chance(3)]
    order = tuple(reversed(ids)) if not c.chance(10) else ("i999",)
    edited = [name for name in ids if c.chance(2)]
    body = re_.QueueBody(edits={name: re_.PromptBody(content=(Text(text="again"),)) for name in edited})
    return re_.QueueEdited(command_id=c.command(), order=order, tokens=dict.fromkeys(edited, 5), body=body)


MAKERS: dict[type[Fact], Callable[[Chaos], Fact]] = {
    se.SessionStarted: lambda c: se.SessionStarted(command_id=c.command(), session_id="again", epoch=9, setup=Setup(agent=AgentRef(name="x"), model=MODEL)),
    se.SessionResumed: resumed,
    se.SessionForked: forked,
    se.SessionShutDown: lambda c: se.SessionShutDown(),
    se.ChangeReceived: change,
    se.RewindReceived: rewind,
    se.WorkspaceChanged: lambda c: se.WorkspaceChanged(workspace=Workspace(cwd="w")),
    se.InstructionsRendered: lambda c: se.InstructionsRendered(digest=f"i{c.pick(3)}", tokens=50, body=se.InstructionsBody(text="be good")),
    se.NoticeGiven: lambda c: se.NoticeGiven(code="n", message="m"),
    se.ContentErased: lambda c: se.ContentErased(seq=1, by="x", why="y"),
    re_.PromptReceived: prompt,
    re_.WakeReceived: lambda c: re_.WakeReceived(command_id=c.command()),
    re_.InterruptReceived: lambda c: re_.InterruptReceived(command_id=c.command(), tokens=c.pick(2) * 5, body=re_.PartialBody(text="half")),
    re_.CancelReceived: lambda c: re_.CancelReceived(command_id=c.command()),
    re_.QueueEdited: queue_edit,
    re_.SignalReceived: lambda c: re_.SignalReceived(command_id=c.command(), kind="s", urgency=c.one(["critical", "high", "normal", "low"]), dedupe_key=c.one([None, "k1", "k2"])),
    re_.CommandRefused: lambda c: re_.CommandRefused(command_id=f"r{c.command()}", code="no", message="no"),
    re_.TimerFired: fired,
    te.ModelAsked: asked_aside,
    te.ModelReplied: replied,
    te.ModelFailed: model_failed,
    ce.ToolPrepared: prepared,
    ce.ToolFinished: finished,
    ce.ToolTimedOut: lambda c: ce.ToolTimedOut(call_id=c.call_id("started"), timeout_ms=5),
    ce.ToolSuspended: lambda c: ce.ToolSuspended(call_id=c.call_id("started")),
    ce.ToolAsked: lambda c: ce.ToolAsked(call_id=c.call_id("started"), body=qe.QuestionBody(message="?", questions=(qe.Question(question="?"),))),
    ce.ToolSettled: lambda c: ce.ToolSettled(command_id=c.command(), call_id=c.call_id("unknown"), outcome=c.one(["happened", "did_not_happen", "run_again"])),
    ce.ResultReceived: lambda c: ce.ResultReceived(command_id=c.command(), call_id=c.call_id("delegated", "suspended"), body=ce.ResultBody(content=(Text(text="x"),))),
    ce.CallReceived: user_call,
    ce.MountReceived: mount,
    ce.UnmountReceived: lambda c: ce.UnmountReceived(command_id=c.command(), tools=(c.one(["add", "extra", "more", "pay"]),), force=c.chance(2)),
    pe.PermissionApproved: approved,
    pe.PermissionDenied: denied,
    pe.ApproverMissed: missed,
    qe.AnswerReceived: answer,
    xe.CompactReceived: lambda c: xe.CompactReceived(command_id=c.command()),
    xe.UndoReceived: undo,
    xe.ContextArchived: archived,
    xe.ContextPagedIn: lambda c: xe.ContextPagedIn(query="q", tokens=9, body=xe.PageBody(text="old")),
}  # fmt: skip
"""One maker for each fact that a session may be told."""

OFTEN: tuple[type[Fact], ...] = (
    *(re_.PromptReceived,) * 3,
    *(te.ModelReplied,) * 6,
    *(te.ModelFailed,) * 2,
    *(ce.ToolFinished,) * 4,
    *(ce.ToolPrepared,) * 2,
    *(ce.CallReceived,) * 2,
    pe.PermissionApproved,
    qe.AnswerReceived,
    pe.ApproverMissed,
    re_.TimerFired,
    *MAKERS,
)
"""What is drawn from when nothing rarer is wanted."""
