"""The steps of an exchange as one message of the assistant's, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.events.runs import RunAsked, RunCancelled, RunFailed, RunInterrupted
from windlass.protocol.exchanges.steps import (
    Began,
    CallHandedOut,
    Closed,
    Ended,
    PermissionAsked,
    QuestionAsked,
    Step,
    TextDone,
    TextWritten,
)
from windlass.server.problems import Problem

from .chat_request import APPROVAL_TOOL
from .response_request import QUESTION_TOOL
from .wire_ids import completion_id, open_id

Json = dict[str, Any]
BETWEEN = "\n\n"
"""What stands between the texts of one answer: the agent may say something, work, and say more."""
FINISHED = {"max_tokens": "length", "refused": "content_filter", "content_filtered": "content_filter"}


class ChatView:
    """Folds steps into a message."""

    def __init__(self, session: str, model: str) -> None:
        self._session = session
        self._texts: dict[str, str] = {}
        self._calls: dict[str, Json] = {}
        self._torn = False
        self.head: Json = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": model}
        self.finish: str | None = None
        self.usage: Json | None = None

    @property
    def message(self) -> Json:
        """The message so far."""
        message: Json = {"role": "assistant", "content": BETWEEN.join(self._texts.values()) or None, "refusal": None}
        return message | ({"tool_calls": list(self._calls.values())} if self._calls else {})

    @property
    def completion(self) -> Json:
        """The whole completion."""
        choice = {"index": 0, "message": self.message, "finish_reason": self.finish, "logprobs": None}
        return {**self.head, "object": "chat.completion", "choices": [choice], "usage": self.usage}

    def feed(self, step: Step) -> Iterator[Json]:
        """The pieces of one step. Raises `Problem` if there is no answer."""
        match step:
            case Began():
                self.head["id"] = completion_id(self._session, step.first, step.last)
                self.head["created"] = step.at_ms // 1000
                yield {"role": "assistant", "content": ""}
            case TextWritten():
                between = BETWEEN if self._texts and step.message_id not in self._texts else ""
                self._texts[step.message_id] = self._texts.get(step.message_id, "") + step.text
                yield {"content": between + step.text}
            case TextDone():
                self._torn = self._torn or self._texts.get(step.message_id, "") != step.text
                self._texts[step.message_id] = step.text
            case CallHandedOut():
                yield self._call(step.call_id, step.tool, step.args)
            case QuestionAsked(ask=question):
                yield self._call(question.question_id, QUESTION_TOOL, msgspec.to_builtins(question.body))
            case PermissionAsked(ask=ask):
                detail = msgspec.to_builtins(ask.detail) if ask.detail is not None else None
                yield self._call(ask.request_id, APPROVAL_TOOL, {"tool": ask.tool, "why": ask.why, "detail": detail})
            case Closed():
                self._calls.pop(step.open_id, None)
            case Ended():
                self._ended(step)
            case _:
                return

    def check_told(self) -> None:
        """Raises `Problem` if the pieces do not add up to the message: a text broke off and was written anew."""
        if self._torn:
            raise Problem(500, "torn", "the answer broke off and was written anew: send the same request again for it")

    def _call(self, name: str, tool: str, args: Any) -> Json:
        function = {"name": tool, "arguments": msgspec.json.encode(args).decode()}
        call = {"id": open_id(self._session, name), "type": "function", "function": function}
        self._calls[name] = call
        return {"tool_calls": [{"index": len(self._calls) - 1, **call}]}

    def _ended(self, step: Ended) -> None:
        terminal = step.terminal
        if step.held:
            self.finish = "tool_calls"
            return
        if terminal is None:
            raise Problem(409, "no_run", step.why)
        if isinstance(terminal, RunFailed):
            raise Problem(500, "run_failed", terminal.failure.message)
        if isinstance(terminal, RunCancelled | RunInterrupted):
            raise Problem(409, "stopped", "the run was stopped; the same request begins another")
        if isinstance(terminal, RunAsked) and not self._calls:
            why = terminal.failure.message if terminal.failure is not None else ""
            waits = ", ".join(terminal.waiting_for)
            raise Problem(409, "asked", why or f"the agent waits for {waits}: answer that in a terminal, and ask again")
        used = terminal.usage
        self.finish = "tool_calls" if self._calls else FINISHED.get(terminal.stop, "stop")
        self.usage = {
            "prompt_tokens": used.input_tokens,
            "completion_tokens": used.output_tokens,
            "total_tokens": used.total_tokens,
            "prompt_tokens_details": {
                "cached_tokens": used.cache_read_tokens,
                "cache_write_tokens": used.cache_write_tokens,
            },
            "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        }
