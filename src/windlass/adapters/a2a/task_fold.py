"""One task, as a fold of the log from the prompt that began it: its state, what was said in it, and its result.

A task has the runs that its messages begin, and those that continue them. What other clients say to the session is
no part of it.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from windlass.events.commands import CommandRefused, PromptReceived
from windlass.events.runs import (
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
    Terminal,
)
from windlass.events.values.blocks import plain_text
from windlass.protocol.exchanges.exchange_view import ExchangeView
from windlass.protocol.exchanges.steps import TextDone
from windlass.runtime.streams.record import Record

from .wire_ids import BEGAN, SAID, message_id, task_id

Json = dict[str, Any]

SUBMITTED, WORKING, COMPLETED = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"
FAILED, CANCELED, REJECTED = "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"
INPUT = "TASK_STATE_INPUT_REQUIRED"
OVER = (COMPLETED, FAILED, CANCELED, REJECTED)


class TaskFold:
    """Folds records into a task."""

    def __init__(self, session_id: str, seq: int) -> None:
        self.session_id = session_id
        self.seq = seq
        self.state = SUBMITTED
        self.note = ""
        """What is said of the state, beside what is asked."""
        self.at_ms = 0
        self.ended = False
        """Whether a further task has begun: what follows is no part of this one."""
        self.seen: set[str] = set()
        """The commands that were taken."""
        self._texts: list[tuple[str, str]] = []
        self._history: list[Json] = []
        self._commands: set[str] = set()
        self._runs: set[str] = set()
        self._view = ExchangeView(session_id, ())
        self._held = False
        """Whether it needs input since a running tool asks something: its run goes on."""

    @property
    def name(self) -> str:
        return task_id(self.session_id, self.seq)

    def feed(self, record: Record) -> list[Json]:
        """What a client that watches is told of the next record."""
        event = record.event
        self.seen.add(getattr(event, "command_id", ""))
        if isinstance(event, PromptReceived) and record.seq > self.seq and event.command_id.startswith(BEGAN):
            self.ended = True
        if self.ended or record.seq < self.seq:
            return []
        before, updates = self.state, []
        for step in self._view.feed(record):
            if isinstance(step, TextDone) and step.text:
                updates += self._wrote(step.message_id, step.text)
        if isinstance(event, PromptReceived):
            self._prompt(record, event)
        elif isinstance(event, RunStarted):
            self._started(event)
        elif isinstance(event, Terminal) and (event.run_id in self._runs or self._commands & set(event.commands)):
            self._runs.add(event.run_id)
            self.state, self.note = _state_of(event)
        elif isinstance(event, CommandRefused) and event.command_id in self._commands:
            self.state, self.note = REJECTED, event.message
        if self.state in (WORKING, INPUT) and self._view.held != self._held:
            self.state, self._held = (INPUT if self._view.held else WORKING), self._view.held
        if self.state != before:
            self.at_ms = record.at_ms
            if self.state == COMPLETED and self._texts:
                updates.append({"artifactUpdate": {**self._ids, "artifact": self._artifact(), "lastChunk": True}})
            updates.append({"statusUpdate": {**self._ids, "status": self.status()}})
        return updates

    @property
    def _ids(self) -> Json:
        return {"taskId": self.name, "contextId": self.session_id}

    # --- what follows from records ---

    def _prompt(self, record: Record, event: PromptReceived) -> None:
        if record.seq == self.seq or event.command_id.startswith(SAID):
            self._commands.add(event.command_id)
            self.at_ms = self.at_ms or record.at_ms
            said = plain_text(event.body.content) if event.body is not None else ""
            name = message_id(event.command_id, record.seq)
            self._history.append(self._message(name, said, role="ROLE_USER"))

    def _started(self, event: RunStarted) -> None:
        if self._commands & set(event.commands) or event.continues in self._runs:
            self._runs.add(event.run_id)
            self.state, self.note = WORKING, ""

    def _wrote(self, name: str, text: str) -> list[Json]:
        """A text before the last is no result: it is told as news of the work."""
        news = []
        if self._texts:
            status = {"state": self.state, "message": self._said(*self._texts[-1])}
            news.append({"statusUpdate": {**self._ids, "status": status}})
        self._texts.append((name, text))
        return news

    # --- what it is ---

    def status(self, asking: list[Json] | None = None) -> Json:
        """The state, with what is asked or what there is to say of it."""
        status: Json = {"state": self.state, "timestamp": _time(self.at_ms)}
        parts = asking if asking else [{"text": self.note}] if self.note else None
        if parts is not None:
            status["message"] = {**self._message(f"{self.name}.{self.state[11:].lower()}", ""), "parts": parts}
        return status

    def task(self, asking: list[Json] | None = None, most: int | None = None) -> Json:
        """The task as it is, with the last so many messages."""
        said = [*self._history, *(self._said(*one) for one in self._texts)]
        task: Json = {"id": self.name, "contextId": self.session_id, "status": self.status(asking)}
        if self.state == COMPLETED and self._texts:
            task["artifacts"] = [self._artifact()]
        return task | {"history": said if most is None else said[max(0, len(said) - most) :]}

    def _artifact(self) -> Json:
        text = self._texts[-1][1]
        parts: list[Json] = [{"text": text, "mediaType": "text/plain"}]
        if text.lstrip()[:1] in ("{", "["):  # structured output is JSON, and programs want it read
            try:
                parts = [{"data": msgspec.json.decode(text), "mediaType": "application/json"}]
            except msgspec.DecodeError:
                pass
        return {"artifactId": f"{self.name}.result", "name": "result", "parts": parts}

    def _said(self, name: str, text: str) -> Json:
        return self._message(f"wl-{name}", text)

    def _message(self, name: str, text: str, role: str = "ROLE_AGENT") -> Json:
        return {"messageId": name, "role": role, "parts": [{"text": text}], **self._ids}


def _state_of(terminal: Terminal) -> tuple[str, str]:
    match terminal:
        case RunAsked():
            return INPUT, terminal.failure.message if terminal.failure is not None else ""
        case RunFailed():
            return FAILED, terminal.failure.message
        case RunCancelled() | RunInterrupted():
            return CANCELED, ""
        case RunSlept():
            return WORKING, "it goes on by itself later"
        case RunCompleted():
            return COMPLETED, ""
        case _:
            raise AssertionError(f"{type(terminal).__name__} ends no run")


def _time(at_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
