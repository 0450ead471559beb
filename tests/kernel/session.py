"""A session in memory for tests: facts in, appends out, each stored line kept. No runtime, no clock, no effects."""

from __future__ import annotations

import itertools
from typing import Any, TypeVar

import msgspec

from windlass.events.base import Event, name_of
from windlass.events.changes import AnyChange, ChangeReceived, ChangeSettings
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.context import CompactReceived
from windlass.events.questions import AnswerBody, AnswerReceived
from windlass.events.runs import CancelReceived, InterruptReceived, PartialBody, RunStarted, WakeReceived
from windlass.events.sessions import SessionForked, SessionResumed, SessionStarted
from windlass.events.signals import SignalBody, SignalReceived
from windlass.events.stored import codec, record
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import (
    CallReceived,
    PreparedBody,
    ResultBody,
    ResultReceived,
    ToolFinished,
    ToolPrepared,
    ToolRequested,
    ToolSettled,
    UserCallBody,
)
from windlass.events.tools.permissions import ApproverMissed, FeedbackBody, PermissionApproved, PermissionDenied
from windlass.events.tools.toolset import MountReceived, UnmountReceived
from windlass.events.trees.children import ChildBody, ChildFinished
from windlass.events.turns import ModelFailed, ModelReplied, ModelRequested, OutputCheck, Prepared, ReplyBody, ReplyCall
from windlass.events.values.blocks import CallSlot, Text
from windlass.events.values.failures import FinishReason, failure
from windlass.events.values.ids import child_end_id
from windlass.events.values.items import ProposedCall, ResultItem
from windlass.events.values.models import ModelRef
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.settings import Settings
from windlass.events.values.setup import AgentRef, Setup
from windlass.events.values.tools import ToolSpec
from windlass.events.values.usage import Price, Usage
from windlass.kernel import log
from windlass.kernel.effects import AnyEffect
from windlass.kernel.owed import owed
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.kernel.step import step

T = TypeVar("T")
PRICE = Price(input=1_000_000, output=2_000_000)
MODEL = ModelRef(name="test/model", provider="test", model="model", window_tokens=100_000, price=PRICE)
TOOLS = (
    ToolSpec(name="add", digest="d-add", contract="pure", traits=("read",)),
    ToolSpec(name="pay", digest="d-pay", contract="at_most_once", traits=("write",)),
    ToolSpec(name="put", digest="d-put", contract="idempotent", traits=("write",)),
    ToolSpec(name="risky", digest="d-risky", settle=True, traits=("write",)),
    ToolSpec(name="ui", digest="d-ui", runs="client"),
    ToolSpec(name="hidden", digest="d-hidden", deferred=True),
    *(
        ToolSpec(name=n, runs="kernel")
        for n in ("ask_user", "todo", "plan", "task", "complete_task", "wait", "load_tools")
    ),
)
HELPER = ToolSpec(name="helper", digest="d-helper", runs="child")
ASK_PAY = Policy(rules=(Rule(action="ask", tool="pay", name="ask about pay"),))


def setup(**changes: Any) -> Setup:
    values: dict[str, Any] = {"agent": AgentRef(name="clerk", digest="d1"), "model": MODEL, "tools": TOOLS} | changes
    return Setup(**values)


def call(tool: str, args: dict[str, Any] | None = None, *, ordinal: int = 0, **more: Any) -> ReplyCall:
    """A prepared call, as a host that found nothing wrong with it would report it."""
    given = {} if args is None else args
    prepared = more.pop("prepared", Prepared(digest=f"{tool}:{sorted(given.items())}"))
    return ReplyCall(call=ProposedCall(ordinal=ordinal, tool=tool, args=given, **more), prepared=prepared)


def malformed(tool: str, text: str, *, ordinal: int = 0) -> ReplyCall:
    return ReplyCall(call=ProposedCall(ordinal=ordinal, tool=tool, malformed=text, error="not JSON"))


class Session:
    """One session's log and live state."""

    def __init__(self, session_id: str = "s1", *, start: bool = True, **changes: Any) -> None:
        self.state = State()
        self.lines: list[bytes] = []
        self.hash = record.GENESIS
        self.at_ms = 1_000
        self.epoch = 1
        self.salts = (f"salt{n}" for n in itertools.count())
        self.commands = itertools.count(1)
        self.prefix = "k"
        self.appends: list[list[Any]] = []
        self.ends: list[int] = []
        if start:
            self.take(SessionStarted(command_id="start", session_id=session_id, epoch=1, setup=setup(**changes)))

    def take(self, fact: Any) -> list[Any]:
        """Feeds one fact; returns the append. A refusal leaves everything as it was."""
        seq = self.state.seq + 1
        events = step(self.state, fact, self.at_ms)
        sealed = codec.encode(
            events,
            prev_hash=self.hash,
            seq=seq,
            at_ms=self.state.now_ms,
            epoch=self.epoch,
            salt=lambda: next(self.salts),
        )
        self.hash = sealed.hash
        self.lines.append(sealed.data)
        self.appends.append(events)
        self.ends.append(sealed.last_seq)
        return events

    def command(self) -> str:
        return f"{self.prefix}{next(self.commands)}"

    # commands

    def prompt(self, text: str = "hello", **more: Any) -> list[Any]:
        tokens = more.pop("tokens", 10)
        return self.take(
            PromptReceived(
                command_id=more.pop("command_id", None) or self.command(),
                tokens=tokens,
                bytes=len(text),
                body=PromptBody(content=(Text(text=text),)),
                **more,
            )
        )

    def interrupt(self, text: str = "") -> list[Any]:
        body = PartialBody(text=text) if text else None
        return self.take(InterruptReceived(command_id=self.command(), tokens=len(text), body=body))

    def cancel(self) -> list[Any]:
        return self.take(CancelReceived(command_id=self.command()))

    def wake(self) -> list[Any]:
        return self.take(WakeReceived(command_id=self.command()))

    def approve(self, request_id: str, **more: Any) -> list[Any]:
        """Approves what was asked, as whoever has read it would."""
        asked = self.state.asks.open.get(request_id)
        more.setdefault("digest", asked.digest if asked is not None else "unknown")
        return self.take(PermissionApproved(command_id=self.command(), request_id=request_id, **more))

    def deny(self, request_id: str, feedback: str = "", **more: Any) -> list[Any]:
        body = FeedbackBody(feedback=feedback) if feedback else None
        return self.take(PermissionDenied(command_id=self.command(), request_id=request_id, body=body, **more))

    def answer(self, question_id: str, **more: Any) -> list[Any]:
        body = more.pop("body", AnswerBody())
        return self.take(AnswerReceived(command_id=self.command(), question_id=question_id, body=body, **more))

    def signal(self, kind: str = "ping", **more: Any) -> list[Any]:
        return self.take(
            SignalReceived(command_id=self.command(), kind=kind, body=SignalBody(text=kind), tokens=5, **more)
        )

    def change(self, change: AnyChange) -> list[Any]:
        return self.take(ChangeReceived(command_id=self.command(), change=change))

    def change_settings(self, **changes: Any) -> list[Any]:
        return self.change(ChangeSettings(settings=msgspec.structs.replace(self.state.setup.settings, **changes)))

    def compact(self) -> list[Any]:
        return self.take(CompactReceived(command_id=self.command()))

    def mount(self, *tools: ToolSpec, source: str = "") -> list[Any]:
        return self.take(MountReceived(command_id=self.command(), tools=tools, source=source))

    def unmount(self, *tools: str, force: bool = False) -> list[Any]:
        return self.take(UnmountReceived(command_id=self.command(), tools=tools, force=force))

    def settle(self, call_id: str, outcome: Any, **more: Any) -> list[Any]:
        return self.take(ToolSettled(command_id=self.command(), call_id=call_id, outcome=outcome, **more))

    def child_ends(self, text: str = "ok", **more: Any) -> list[Any]:
        """The child that a call waits for comes to its end."""
        child = next(iter(self.state.children.open.values()))
        name = more.pop("command_id", child_end_id(child.child_id))
        body = ChildBody(content=(Text(text=text),))
        return self.take(
            ChildFinished(command_id=name, child_id=child.child_id, call_id=child.call_id, body=body, **more)
        )

    def run_tool(self, tool: str, args: dict[str, Any] | None = None) -> list[Any]:
        body = UserCallBody(args=args or {}, prepared=Prepared(digest=f"person:{tool}"))
        return self.take(CallReceived(command_id=self.command(), tool=tool, body=body))

    # what the world answers

    def reply(
        self,
        text: str = "",
        *calls: ReplyCall,
        finish: FinishReason | None = None,
        output: OutputCheck | None = None,
        **more: Any,
    ) -> list[Any]:
        """The open model request is answered."""
        request = next(iter(self.state.requests.open.values()))
        blocks: list[Any] = [Text(text=text)] if text else []
        numbered = [
            ReplyCall(call=_numbered(found.call, index), prepared=found.prepared) for index, found in enumerate(calls)
        ]
        blocks += [CallSlot(ordinal=index) for index in range(len(numbered))]
        usage = more.pop("usage", Usage(input_tokens=100, output_tokens=20))
        return self.take(
            ModelReplied(
                request_id=more.pop("request_id", request.request_id),
                lane=request.lane,
                finish=finish or ("tool_calls" if calls else "stop"),
                usage=usage,
                model="test/model",
                provider="test",
                calls=len(numbered),
                empty=not blocks,
                tokens=more.pop("tokens", 20),
                bytes=80,
                body=ReplyBody(blocks=tuple(blocks), calls=tuple(numbered), output=output),
                **more,
            )
        )

    def model_fails(self, kind: Any = "server_error", **more: Any) -> list[Any]:
        request = next(iter(self.state.requests.open.values()))
        return self.take(
            ModelFailed(
                request_id=request.request_id,
                lane=request.lane,
                attempt=request.attempt,
                failure=failure(kind, f"{kind} happened", **more),
                sample=0.5,
            )
        )

    def finish(self, call_id: str | None = None, text: str = "ok", **more: Any) -> list[Any]:
        name = call_id or self.running()[0]
        return self.take(
            ToolFinished(
                call_id=name, tokens=more.pop("tokens", 5), body=ResultBody(content=(Text(text=text),)), **more
            )
        )

    def result(self, call_id: str, text: str = "ok") -> list[Any]:
        return self.take(
            ResultReceived(
                command_id=self.command(), call_id=call_id, tokens=5, body=ResultBody(content=(Text(text=text),))
            )
        )

    def prepare(self, call_id: str, *, digest: str = "prepared", **more: Any) -> list[Any]:
        found = Prepared(digest=digest, **more)
        body = PreparedBody(prepared=found)
        return self.take(
            ToolPrepared(call_id=call_id, digest=digest, labels=found.labels, traits=found.traits, body=body)
        )

    def nobody(self) -> list[Any]:
        """The host found nobody to ask."""
        waiting = (
            *self.state.asks.open,
            *(c.call_id for c in self.state.calls.by_id.values() if c.status == "delegated"),
        )
        return self.take(ApproverMissed(request_ids=tuple(waiting)))

    def fire(self, timer_id: str | None = None) -> list[Any]:
        timer = self.state.timers.open[timer_id or next(iter(self.state.timers.open))]
        self.at_ms = max(self.at_ms, timer.at_ms)
        return self.take(TimerFired(timer_id=timer.timer_id))

    def crash(self, **found: Any) -> list[Any]:
        """The owner dies: the state is folded from the log, and a new owner resumes."""
        self.state = self.folded()
        self.epoch += 1
        return self.take(SessionResumed(epoch=self.epoch, runner=f"runner-{self.epoch}", **found))

    def fork(self, at_seq: int, *, keeps_open: bool = False) -> Session:
        """A new session that continues this one after the append that ends at `at_seq`."""
        branch = Session("fork", start=False)
        kept = [line for line in self.lines if codec.decode(line, bodies=False).last_seq <= at_seq]
        branch.lines = list(kept)
        branch.state = log.fold_lines(kept)
        branch.hash = codec.decode(kept[-1]).hash
        branch.at_ms = self.at_ms
        branch.prefix = "b"
        assert branch.state.seq == at_seq
        origin = SessionForked(session_id="fork", origin_id="s1", at_seq=at_seq, origin_hash=branch.hash, epoch=1)
        branch.take(msgspec.structs.replace(origin, keeps_open=keeps_open))
        return branch

    # what can be seen

    def running(self) -> list[str]:
        return [c.call_id for c in self.state.calls.by_id.values() if c.status == "started"]

    def called(self, number: int = 0) -> str:
        """The id of a call that was requested, the first of the log being 0."""
        return self._all(ToolRequested)[number].call_id

    def requested(self, number: int = 0) -> str:
        """The id of a request to a model, counted the same way."""
        return self._all(ModelRequested)[number].request_id

    def ran(self, number: int = 0) -> str:
        """The id of a run, counted the same way."""
        return self._all(RunStarted)[number].run_id

    def _all(self, kind: type[T]) -> list[T]:
        return [event for append in self.appends for event in append if isinstance(event, kind)]

    def folded(self) -> State:
        return log.fold_lines(self.lines)

    def owed(self) -> tuple[AnyEffect, ...]:
        return owed(self.state)

    def events(self) -> list[Any]:
        return [event for line in self.lines for event in codec.decode(line).events if isinstance(event, Event)]

    def names(self) -> list[str]:
        return [name_of(event) for event in self.events()]

    def event(self, seq: int) -> Any:
        return self.events()[seq - 1]

    def items(self) -> list[Any]:
        events = self.events()
        return render(self.state, lambda seq: events[seq - 1])

    def results(self) -> list[Any]:
        """The results of calls that a model would be shown."""
        return [shown for shown in self.items() if isinstance(shown, ResultItem)]

    def verify(self) -> log.Report:
        return log.verify(self.lines)


def _numbered(proposed: ProposedCall, ordinal: int) -> ProposedCall:
    return msgspec.structs.replace(proposed, ordinal=ordinal)


def names(events: list[Event]) -> list[str]:
    return [name_of(event) for event in events]


__all__ = ["ASK_PAY", "MODEL", "PRICE", "TOOLS", "Session", "Settings", "call", "malformed", "names", "setup"]
