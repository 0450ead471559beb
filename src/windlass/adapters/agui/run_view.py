"""The steps of an exchange as the events of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from windlass.events.runs import RunAsked, RunCancelled, RunFailed, RunInterrupted, RunSlept, Terminal
from windlass.protocol.exchanges.answers import Ask, answer_schema, ask_id, words_of
from windlass.protocol.exchanges.steps import (
    CallAnswered,
    CallEnded,
    CallHandedOut,
    CallMade,
    Closed,
    Ended,
    ReasoningDone,
    ReasoningWritten,
    Step,
    TaskTold,
    TextDone,
    TextWritten,
    TurnBegan,
    TurnEnded,
)
from windlass.runtime.api.approvals import PermissionAsk

from .run_input import RunInput
from .wire_ids import OURS, message_id, reasoning_id

Json = dict[str, Any]
PROTOCOL = "1.0"
"""The version of the protocol that these events are of."""


class RunView:
    """Folds steps into events, each opened and closed as the protocol wants it."""

    def __init__(self, given: RunInput) -> None:
        self._given = given
        self._run = {"threadId": given.thread_id, "runId": given.run_id}
        self._step = ""
        self._writing = ""
        self._thinking = ""
        self._written = ""
        self._pending: dict[str, None] = {}
        """Calls that wait for the application."""
        self.torn = False
        """Whether the client was told a text that is not the one which was kept: an answer broke off and was tried
        again. It needs the messages as they are."""

    def started(self, task: Any, messages: Sequence[Json] | None) -> Iterator[Json]:
        """The beginning of a run: the messages, if the client must be given them, and the task, if there is one."""
        more = {"parentRunId": self._given.parent_run_id} if self._given.parent_run_id is not None else {}
        yield {"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL, **more}
        yield from snapshots(self._given.messages, messages) if messages is not None else ()
        state = self._given.state
        if task and isinstance(state, dict | None) and (state or {}).get("task") != task:
            yield {"type": "STATE_SNAPSHOT", "snapshot": {**(state or {}), "task": task}}

    def feed(self, step: Step) -> Iterator[Json]:
        """The events of one step."""
        match step:
            case TurnBegan():
                yield from self._close()
                self._step = f"turn {step.number}"
                yield {"type": "STEP_STARTED", "stepName": self._step}
            case TurnEnded():
                yield from self._close()
            case ReasoningWritten():
                yield from self._thought(reasoning_id(step.message_id), step.text)
            case ReasoningDone():
                yield from self._close_reasoning()
            case TextWritten():
                yield from self._text(message_id(step.message_id), step.text)
            case TextDone():
                self.torn = self.torn or self._written != step.text
                yield from self._close_text()
            case TaskTold() if isinstance(self._given.state, dict):
                told = msgspec.to_builtins(step.task)
                yield {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/task", "value": told}]}
            case _:
                yield from self._of_call(step)

    def ended(self, step: Ended, asks: Sequence[Ask]) -> Iterator[Json]:
        """The end of a run; `asks` are what is open now."""
        yield from self._close()
        terminal = step.terminal
        usage = {"usage": [_usage(terminal)]} if terminal is not None else {}
        if not step.held and (terminal is None or isinstance(terminal, RunFailed)):
            message = terminal.failure.message if isinstance(terminal, RunFailed) else step.why
            code = terminal.failure.kind if isinstance(terminal, RunFailed) else "no_run"
            yield {"type": "RUN_ERROR", "message": message, "code": code, **usage}
            return
        if isinstance(terminal, RunAsked) and terminal.failure is not None and not asks and not self._pending:
            yield {"type": "RUN_ERROR", "message": terminal.failure.message, "code": terminal.failure.kind, **usage}
            return
        outcome: Json = {"type": "success"}
        if asks and (step.held or isinstance(terminal, RunAsked)):
            outcome = {"type": "interrupt", "interrupts": [_interrupt(ask) for ask in asks]}
        elif isinstance(terminal, RunCancelled | RunInterrupted):
            outcome = {"type": "cancelled"}
        elif self._pending:
            outcome |= {"pendingToolCallIds": list(self._pending)}
        rest = {"result": {"wakeAtMs": terminal.wake_at_ms}} if isinstance(terminal, RunSlept) else {}
        yield {"type": "RUN_FINISHED", **self._run, "outcome": outcome, **rest, **usage}

    # --- texts ---

    def _text(self, name: str, text: str) -> Iterator[Json]:
        yield from self._close_reasoning()
        if self._writing != name:
            yield from self._close_text()
            self._writing, self._written = name, ""
            yield {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}
        self._written += text
        if text:
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": text}

    def _thought(self, name: str, text: str) -> Iterator[Json]:
        if self._thinking != name:
            yield from self._close_reasoning()
            self._thinking = name
            yield {"type": "REASONING_START", "messageId": name}
            yield {"type": "REASONING_MESSAGE_START", "messageId": name, "role": "reasoning"}
        if text:
            yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": name, "delta": text}

    def _close(self) -> Iterator[Json]:
        yield from self._close_reasoning()
        yield from self._close_text()
        if self._step:
            yield {"type": "STEP_FINISHED", "stepName": self._step}
            self._step = ""

    def _close_text(self) -> Iterator[Json]:
        if self._writing:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._writing}
            self._writing = self._written = ""

    def _close_reasoning(self) -> Iterator[Json]:
        if self._thinking:
            yield {"type": "REASONING_MESSAGE_END", "messageId": self._thinking}
            yield {"type": "REASONING_END", "messageId": self._thinking}
            self._thinking = ""

    # --- calls ---

    def _of_call(self, step: Step) -> Iterator[Json]:
        match step:
            case CallMade():
                yield from self._call(step)
            case CallHandedOut():
                self._pending[step.call_id] = None
            case CallEnded() | CallAnswered():
                yield _result(step.call_id, step.text)
            case Closed() if step.open_id in self._pending:  # another client was quicker
                del self._pending[step.open_id]
                yield _result(step.open_id, step.text)
            case _:
                return

    def _call(self, step: CallMade) -> Iterator[Json]:
        parent = {"parentMessageId": message_id(step.message_id or step.call_id)}
        yield {"type": "TOOL_CALL_START", "toolCallId": step.call_id, "toolCallName": step.tool, **parent}
        args = msgspec.json.encode(step.args).decode()
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": step.call_id, "delta": args}
        yield {"type": "TOOL_CALL_END", "toolCallId": step.call_id}


def snapshots(known: Sequence[Json], messages: Sequence[Json]) -> Iterator[Json]:
    """The messages as they are. A client leaves those that it has in their places and adds the others behind them: if
    that is not their order, it is first told that there are none. Reasoning goes only if there is other reasoning."""
    names = [message["id"] for message in messages]
    kept = [message.get("id") for message in known if message.get("id") in names]
    if kept != names[: len(kept)]:
        thought = any(message["role"] == "reasoning" for message in messages)
        yield _snapshot([{"id": OURS, "role": "reasoning", "content": ""}] if thought else [])
    yield _snapshot(messages)


def _snapshot(messages: Sequence[Json]) -> Json:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


def failed(message: str, code: str) -> Json:
    """A run of which no more can be told."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


def _result(call_id: str, text: str) -> Json:
    more: Json = {"toolCallId": call_id, "content": text, "role": "tool"}
    return {"type": "TOOL_CALL_RESULT", "messageId": message_id(call_id), **more}


def _interrupt(ask: Ask) -> Json:
    interrupt: Json = {
        "id": ask_id(ask),
        "reason": "tool_call" if isinstance(ask, PermissionAsk) else "input_required",
        "message": words_of(ask),
        "toolCallId": ask.call_id,
        "responseSchema": answer_schema(ask),
    }
    if isinstance(ask, PermissionAsk):
        detail = msgspec.to_builtins(ask.detail) if ask.detail is not None else None
        return interrupt | {"metadata": {"tool": ask.tool, "digest": ask.digest, "detail": detail}}
    return interrupt | {"metadata": msgspec.to_builtins(ask.body)}


def _usage(terminal: Terminal) -> Json:
    used = terminal.usage
    return {
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "totalTokens": used.total_tokens,
        "reasoningTokens": used.reasoning_tokens,
        "cachedInputTokens": used.cache_read_tokens,
        "cacheWriteInputTokens": used.cache_write_tokens,
    }
