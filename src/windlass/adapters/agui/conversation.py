"""The messages of a thread as its log holds them: what a client is given whose own copy lacks something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events.commands import PromptReceived
from windlass.events.sessions import RewindReceived
from windlass.events.values.blocks import plain_text
from windlass.protocol.exchanges.exchange_view import ExchangeView
from windlass.protocol.exchanges.steps import CallAnswered, CallEnded, CallMade, Closed, ReasoningDone, Step, TextDone
from windlass.runtime.api.session import Session
from windlass.runtime.streams.record import Record

from .wire_ids import message_id, prompt_message_id, reasoning_id

Json = dict[str, Any]


class Conversation:
    """Folds a log into messages."""

    def __init__(self, session_id: str, known: Iterable[Json] = ()) -> None:
        """`known` are the messages of a client: results that it gave have the ids that it gave them."""
        self._results = {str(one.get("toolCallId")): str(one.get("id")) for one in known if one.get("role") == "tool"}
        self._view = ExchangeView(session_id, ())
        self._found: list[tuple[int, Json]] = []
        self._calls: set[str] = set()

    @property
    def messages(self) -> list[Json]:
        """The messages up to here."""
        return [message for _, message in self._found]

    def feed(self, record: Record) -> None:
        """Takes the next record."""
        event = record.event
        if isinstance(event, RewindReceived):
            self._found = [(seq, message) for seq, message in self._found if seq <= event.to_seq]
        elif isinstance(event, PromptReceived) and event.body is not None:
            said = event.body.displayed or plain_text(event.body.content)
            name = prompt_message_id(event.command_id, record.seq)
            self._found.append((record.seq, {"id": name, "role": "user", "content": said}))
        for step in self._view.feed(record):
            self._add(record.seq, step)

    def _add(self, seq: int, step: Step) -> None:
        match step:
            case TextDone():
                self._of_reply(seq, step.message_id)["content"] = step.text
            case CallMade():
                made = {"name": step.tool, "arguments": msgspec.json.encode(step.args).decode()}
                message = self._of_reply(seq, step.message_id or step.call_id)
                message.setdefault("toolCalls", []).append({"id": step.call_id, "type": "function", "function": made})
                self._calls.add(step.call_id)
            case ReasoningDone() if step.text:
                name = reasoning_id(step.message_id)
                self._found.append((seq, {"id": name, "role": "reasoning", "content": step.text}))
            case (
                CallEnded(call_id=call_id, text=text)
                | CallAnswered(call_id=call_id, text=text)
                | Closed(open_id=call_id, text=text)
            ) if call_id in self._calls:
                result = {
                    "id": self._results.get(call_id, message_id(call_id)),
                    "role": "tool",
                    "toolCallId": call_id,
                    "content": text,
                }
                self._found.append((seq, result))
            case _:
                return

    def _of_reply(self, seq: int, name: str) -> Json:
        message = next((one for _, one in reversed(self._found) if one["id"] == message_id(name)), None)
        if message is None:
            message = {"id": message_id(name), "role": "assistant"}
            self._found.append((seq, message))
        return message


async def conversation_of(session: Session, known: Iterable[Json], until: int | None = None) -> list[Json]:
    """The messages of a session, up to a record."""
    fold = Conversation(session.session_id, known)
    async for record in session.runtime.host.log.records(session.key, until=until):
        fold.feed(record)
    return fold.messages


def lacks(client: Iterable[Json], log: Iterable[Json]) -> bool:
    """Whether a client has not all that the log has, beside reasoning, which is its own matter."""
    known = {message.get("id") for message in client}
    return any(message["id"] not in known for message in log if message["role"] != "reasoning")
