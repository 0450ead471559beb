"""Draws facts that fit, nearly fit or do not fit the state of a session, from one source of choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tests.kernel.session import MODEL, Session, call, malformed
from windlass.events import codec
from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import permissions as pe
from windlass.events import questions as qe
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events import turns as te
from windlass.events.base import Fact
from windlass.events.blocks import Text
from windlass.events.errors import Refused
from windlass.events.failures import failure
from windlass.events.hooks import HookRuling
from windlass.events.specs import AgentRef, Grant, Limits, RunOptions, Task, ToolSpec, Workspace
from windlass.events.turns import OutputCheck, Prepared
from windlass.events.usage import Usage
from windlass.kernel import decide
from windlass.kernel.log import dump, state_hash
from windlass.testing.invariants import Checker, check_items

T = TypeVar("T")
Pick = Callable[[int], int]
"""`pick(n)` gives a number below n: from hypothesis, or from a seeded generator."""

FAILURES = ("rate_limited", "server_error", "context_exceeded", "auth", "invalid_request", "truncated_reply")


class Chaos:
    """A session under random facts, with every rule checked after each."""

    def __init__(self, pick: Pick, **changes: Any) -> None:
        self.pick = pick
        self.session = Session(**changes)
        self.checker = Checker()
        self.fed = 0
        self.applied: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.fresh = 0
        self.feed()

    def one(self, options: Sequence[T]) -> T:
        return options[self.pick(len(options))]

    def chance(self, one_in: int) -> bool:
        return self.pick(one_in) == 0

    def command(self) -> str:
        self.fresh += 1
        return f"x{self.fresh}"

    def feed(self) -> None:
        while self.fed < len(self.session.appends):
            for event in self.session.appends[self.fed]:
                self.checker.feed(event)
            self.fed += 1

    def tick(self) -> None:
        """One fact, applied or refused, and nothing else."""
        session = self.session
        session.at_ms += self.pick(3) * 400
        maker = self.one(MAKERS)
        fact = maker(self)
        if fact is None:
            return
        phase = type(session.state.phase).__name__
        before = state_hash(session.state)
        records = len(session.lines)
        try:
            session.take(fact)
        except Refused as refusal:
            assert state_hash(session.state) == before, f"a refused {type(fact).__name__} changed the state"
            assert len(session.lines) == records
            self.refused[refusal.code] += 1
            return
        self.applied[(phase, type(fact).__name__)] += 1
        self.feed()
        self.checker.rest(session.state)
        assert not isinstance(session.state.phase, decide.st.Between), "an append ended between two turns"

    def check_fold(self) -> None:
        assert dump(self.session.folded()) == dump(self.session.state)
        check_items(self.session.items())

    # what there is to point at

    def call_id(self) -> str:
        known = list(self.session.state.calls)
        return self.one(known) if known and not self.chance(12) else f"c{self.pick(60)}.0"

    def ask_id(self, kind: str) -> str:
        known = [a.ask_id for a in self.session.state.asks.values() if a.kind == kind]
        return self.one(known) if known and not self.chance(8) else f"{kind[0]}{self.pick(60)}"

    def request_id(self) -> str:
        known = list(self.session.state.requests)
        return self.one(known) if known and not self.chance(12) else f"m{self.pick(60)}"

    def args(self, tool: str) -> dict[str, Any]:
        if tool == "ask_user":
            return {"question": "which?", "options": ["a", "b"]}
        if tool == "todo":
            return {"todos": [{"todo_id": "1", "content": "x"}]}
        if tool == "plan":
            return {"summary": "s", "content": "do it"}
        if tool == "wait":
            return {"for_ms": 1 + self.pick(100_000)}
        if tool == "load_tools":
            return {"names": ["hidden"]}
        if tool == "task":
            return {"goal": "g"}
        return {"n": self.pick(6)}

    def reply_call(self) -> te.ReplyCall:
        tool = self.one(
            [
                "add",
                "pay",
                "put",
                "risky",
                "ui",
                "hidden",
                "nowhere",
                "ask_user",
                "todo",
                "plan",
                "wait",
                "task",
                "load_tools",
                "complete_task",
            ]
        )
        if self.chance(12):
            return malformed(tool, "{")
        if self.chance(8):
            return te.ReplyCall(call=call(tool, self.args(tool)).call)
        if self.chance(12):
            return call(tool, self.args(tool), prepared=Prepared(digest="bad", errors=("$.n: wrong",)))
        return call(tool, self.args(tool))


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


def replied(c: Chaos) -> Fact:
    calls = [c.reply_call() for _ in range(c.pick(4))] if not c.chance(3) else []
    calls = [
        te.ReplyCall(call=msgspec.structs.replace(found.call, ordinal=i), prepared=found.prepared)
        for i, found in enumerate(calls)
    ]
    blocks = () if c.chance(6) else (Text(text="words"),)
    finish = (
        c.one(["stop", "stop", "length", "refusal", "content_filter", "pause"])
        if not calls or c.chance(6)
        else "tool_calls"
    )
    output = OutputCheck(valid=c.chance(2), errors=("no",)) if c.chance(2) else None
    return te.ModelReplied(
        request_id=c.request_id(), finish=finish, usage=Usage(input_tokens=c.pick(5_000), output_tokens=c.pick(500)),
        calls=len(calls), empty=not blocks and not calls, tokens=c.pick(3_000), bytes=100,
        body=te.ReplyBody(blocks=blocks, calls=tuple(calls), output=output),
    )  # fmt: skip


def model_failed(c: Chaos) -> Fact:
    hint = c.one([None, None, 5_000, 120_000])
    return te.ModelFailed(
        request_id=c.request_id(), failure=failure(c.one(FAILURES), "no", retry_after_ms=hint), sample=0.25
    )


def finished(c: Chaos) -> Fact:
    changes = (se.FileChange(path="a", operation="update", lines_added=1),) if c.chance(5) else ()
    return ce.ToolFinished(
        call_id=c.call_id(),
        ok=not c.chance(4),
        tokens=c.pick(4_000),
        changes=changes,
        body=ce.ResultBody(content=(Text(text="r"),)),
    )


def prepared(c: Chaos) -> Fact:
    hooks = (HookRuling(hook_id="h", point="before_tool", outcome="denied", fatal=c.chance(3)),) if c.chance(6) else ()
    found = Prepared(digest=f"p{c.pick(4)}")
    return ce.ToolPrepared(
        call_id=c.call_id(),
        digest=found.digest,
        changed=c.chance(3),
        hooks=hooks,
        body=ce.PreparedBody(prepared=found, args=c.args("add")),
    )


def approved(c: Chaos) -> Fact:
    scope = c.one(["once", "once", "session", "pattern"])
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
        action=c.one([None, "approve"]), body=qe.AnswerBody(answers=(qe.Answer(index=0, selected=("a",)),), edited="new" if c.chance(3) else None),
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
    return se.SessionResumed(
        epoch=c.session.epoch, tools=tools, agent=AgentRef(name="clerk", digest="d2") if c.chance(3) else None
    )


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
    to = c.pick(c.session.state.seq + 2)
    lines = []
    last = 0
    for line in c.session.lines:
        end = codec.decode(line, bodies=False).last_seq
        if end > to:
            break
        lines.append(line)
        last = end
    found = decide.st.State() if not lines else __import__("windlass.kernel.log", fromlist=["x"]).fold_lines(lines)
    whole = found.turn is None
    return se.RewindReceived(command_id=c.command(), to_seq=last, restored=tuple(found.history) if whole else ())


def undo(c: Chaos) -> Fact:
    return xe.UndoReceived(command_id=c.command(), restored=tuple(c.session.state.history))


def mount(c: Chaos) -> Fact:
    name = c.one(["add", "extra", "more"])
    return ce.MountReceived(
        command_id=c.command(), tools=(ToolSpec(name=name, digest=f"d{c.pick(3)}", contract="pure"),)
    )


def queue_edit(c: Chaos) -> Fact:
    ids = [f"i{seq}" for seq in c.session.state.queue if not c.chance(3)]
    return re_.QueueEdited(command_id=c.command(), order=tuple(reversed(ids)) if not c.chance(10) else ("i999",))


MAKERS: list[Callable[[Chaos], Fact | None]] = [
    prompt, prompt, prompt,
    replied, replied, replied, replied, replied, replied,
    model_failed, model_failed,
    finished, finished, finished, finished,
    prepared, prepared,
    approved, approved, denied, answer, answer, missed, missed, fired, fired,
    resumed, forked, change, rewind, undo, mount, queue_edit,
    lambda c: ce.ToolTimedOut(call_id=c.call_id(), timeout_ms=5),
    lambda c: ce.ToolSuspended(call_id=c.call_id()),
    lambda c: ce.ToolAsked(call_id=c.call_id(), body=qe.QuestionBody(message="?", questions=(qe.Question(question="?"),))),
    lambda c: ce.ToolSettled(command_id=c.command(), call_id=c.call_id(), outcome=c.one(["happened", "did_not_happen", "run_again"])),
    lambda c: ce.ResultReceived(command_id=c.command(), call_id=c.call_id(), body=ce.ResultBody(content=(Text(text="x"),))),
    lambda c: ce.CallReceived(command_id=c.command(), tool=c.one(["add", "pay", "ui", "todo", "nowhere"]), body=ce.UserCallBody(args=c.args("todo"), prepared=Prepared(digest="u") if not c.chance(3) else None)),
    lambda c: ce.UnmountReceived(command_id=c.command(), tools=(c.one(["add", "extra", "more", "pay"]),), force=c.chance(2)),
    lambda c: re_.WakeReceived(command_id=c.command()),
    lambda c: re_.InterruptReceived(command_id=c.command(), tokens=c.pick(2) * 5, body=re_.PartialBody(text="half")),
    lambda c: re_.CancelReceived(command_id=c.command()),
    lambda c: re_.SignalReceived(command_id=c.command(), kind="s", urgency=c.one(["critical", "high", "normal", "low"]), dedupe_key=c.one([None, "k1", "k2"])),
    lambda c: re_.CommandRefused(command_id=f"r{c.command()}", code="no", message="no"),
    lambda c: se.WorkspaceChanged(workspace=Workspace(cwd="w")),
    lambda c: se.InstructionsRendered(digest=f"i{c.pick(3)}", tokens=50, body=se.InstructionsBody(text="be good")),
    lambda c: se.NoticeGiven(code="n", message="m"),
    lambda c: se.SessionShutDown(),
    lambda c: se.ContentErased(seq=1, by="x", why="y"),
    lambda c: xe.CompactReceived(command_id=c.command()),
    lambda c: xe.ContextPagedIn(query="q", tokens=9, body=xe.PageBody(text="old")),
    lambda c: se.SessionStarted(command_id=c.command(), session_id="again", epoch=9, setup=se.Setup(agent=AgentRef(name="x"), model=MODEL)),
]  # fmt: skip
