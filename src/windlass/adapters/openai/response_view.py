"""The steps of an exchange as events of a response, and the response that they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.events.runs import RunAsked, RunCompleted, RunFailed
from windlass.protocol.exchanges.steps import (
    Began,
    CallEnded,
    CallHandedOut,
    Ended,
    PermissionAsked,
    QuestionAsked,
    ReasoningDone,
    ReasoningWritten,
    Step,
    TextDone,
    TextWritten,
)
from windlass.runtime.api.approvals import PermissionAsk
from windlass.server.problems import ProblemBody

from .response_request import QUESTION_TOOL
from .wire_ids import open_id, response_id

Json = dict[str, Any]


class ResponseView:
    """Folds steps into events."""

    def __init__(self, session: str, model: str, previous: str | None = None) -> None:
        self._session = session
        self._count = 0
        self._writing: tuple[str, int] | None = None
        self._thinking: tuple[str, int] | None = None
        self.response: Json = {
            "id": "",
            "object": "response",
            "created_at": 0,
            "status": "in_progress",
            "model": model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "previous_response_id": previous,
            "tool_choice": "auto",
            "tools": [],
            "temperature": None,
            "top_p": None,
            "usage": None,
        }

    def feed(self, step: Step) -> list[Json]:
        """The events of one step, in their order."""
        events = []
        for event in self._of(step):
            events.append({**event, "sequence_number": self._count})
            self._count += 1
        return events

    def broken(self, problem: ProblemBody) -> Json:
        """The last event of a response of which no more can be told."""
        about = {"code": problem.code, "message": problem.detail, "param": None}
        return {"type": "error", **about, "sequence_number": self._count}

    def _of(self, step: Step) -> Iterator[Json]:
        match step:
            case Began():
                self.response["id"] = response_id(self._session, step.first, step.last)
                self.response["created_at"] = step.at_ms // 1000
                yield {"type": "response.created", "response": self._now()}
                yield {"type": "response.in_progress", "response": self._now()}
            case ReasoningWritten():
                yield from self._thought(step)
            case ReasoningDone():
                yield from self._thought_done(step)
            case TextWritten():
                yield from self._written(step)
            case TextDone():
                yield from self._text_done(step)
            case CallHandedOut():
                yield from self._function_call(open_id(self._session, step.call_id), step.tool, step.args)
            case QuestionAsked(ask=question):
                asked = msgspec.to_builtins(question.body)
                yield from self._function_call(open_id(self._session, question.question_id), QUESTION_TOOL, asked)
            case PermissionAsked(ask=permission):
                yield from self._whole(self._approval(permission))
            case CallEnded():
                yield from self._whole(self._server_call(step))
            case Ended():
                yield from self._ended(step)
            case _:
                return

    def _now(self) -> Json:
        return {**self.response, "output": list(self.response["output"])}

    # --- items ---

    def _added(self, item: Json) -> tuple[int, Json]:
        self.response["output"].append(item)
        at = len(self.response["output"]) - 1
        return at, {"type": "response.output_item.added", "output_index": at, "item": {**item}}

    def _whole(self, item: Json) -> Iterator[Json]:
        at, added = self._added(item)
        yield added
        yield {"type": "response.output_item.done", "output_index": at, "item": item}

    def _function_call(self, call_id: str, tool: str, args: Any) -> Iterator[Json]:
        said = msgspec.json.encode(args).decode()
        item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": tool, "status": "completed"}
        at, added = self._added({**item, "arguments": said})
        yield {**added, "item": {**item, "arguments": "", "status": "in_progress"}}
        of_call = {"item_id": item["id"], "output_index": at}
        yield {"type": "response.function_call_arguments.delta", **of_call, "delta": said}
        yield {"type": "response.function_call_arguments.done", **of_call, "name": tool, "arguments": said}
        yield {"type": "response.output_item.done", "output_index": at, "item": self.response["output"][at]}

    def _approval(self, ask: PermissionAsk) -> Json:
        shown = msgspec.to_builtins(ask.detail) if ask.detail is not None else {}
        return {
            "type": "mcp_approval_request",
            "id": open_id(self._session, ask.request_id),
            "name": ask.tool,
            "server_label": self.response["model"],
            "arguments": msgspec.json.encode(shown.get("args") or shown).decode(),
        }

    def _server_call(self, step: CallEnded) -> Json:
        return {
            "type": "mcp_call",
            "id": f"mcp_{self._session}:{step.call_id}",
            "name": step.tool,
            "server_label": self.response["model"],
            "arguments": msgspec.json.encode(step.args).decode(),
            "output": step.text if step.ok else None,
            "error": None if step.ok else step.text,
            "status": "completed" if step.ok else "failed",
        }

    # --- reasoning ---

    def _thought(self, step: ReasoningWritten) -> Iterator[Json]:
        if self._thinking is None or self._thinking[0] != step.message_id:
            item = {"type": "reasoning", "id": f"rs_{self._session}:{step.message_id}", "summary": []}
            at, added = self._added({**item, "status": "in_progress"})
            self._thinking = (step.message_id, at)
            yield added
            empty = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", **self._summary(at), "part": empty}
        at = self._thinking[1]
        yield {"type": "response.reasoning_summary_text.delta", **self._summary(at), "delta": step.text}

    def _summary(self, at: int) -> Json:
        return {"item_id": self.response["output"][at]["id"], "output_index": at, "summary_index": 0}

    def _thought_done(self, step: ReasoningDone) -> Iterator[Json]:
        if self._thinking is None or self._thinking[0] != step.message_id:
            yield from self._thought(ReasoningWritten(message_id=step.message_id, text=step.text))
        assert self._thinking is not None
        at, self._thinking = self._thinking[1], None
        part = {"type": "summary_text", "text": step.text}
        item = self.response["output"][at]
        item |= {"status": "completed", "summary": [part]}
        yield {"type": "response.reasoning_summary_text.done", **self._summary(at), "text": step.text}
        yield {"type": "response.reasoning_summary_part.done", **self._summary(at), "part": part}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}

    # --- text ---

    def _written(self, step: TextWritten) -> Iterator[Json]:
        if self._writing is None or self._writing[0] != step.message_id:
            name = f"msg_{self._session}:{step.message_id}"
            item = {"type": "message", "id": name, "role": "assistant", "status": "in_progress", "content": []}
            at, added = self._added(item)
            self._writing = (step.message_id, at)
            yield added
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **self._part(at), "part": empty}
        at = self._writing[1]
        yield {"type": "response.output_text.delta", **self._part(at), "delta": step.text, "logprobs": []}

    def _part(self, at: int) -> Json:
        return {"item_id": self.response["output"][at]["id"], "output_index": at, "content_index": 0}

    def _text_done(self, step: TextDone) -> Iterator[Json]:
        if self._writing is None or self._writing[0] != step.message_id:
            yield from self._written(TextWritten(message_id=step.message_id, text=step.text))
        assert self._writing is not None
        at, self._writing = self._writing[1], None
        item = self.response["output"][at]
        part = {"type": "output_text", "text": step.text, "annotations": []}
        item |= {"status": "completed", "content": [part]}
        yield {"type": "response.output_text.done", **self._part(at), "text": step.text, "logprobs": []}
        yield {"type": "response.content_part.done", **self._part(at), "part": part}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}

    # --- the end ---

    def _ended(self, step: Ended) -> Iterator[Json]:
        terminal, response = step.terminal, self.response
        if step.held:
            response["status"] = "completed"
        elif terminal is None or isinstance(terminal, RunFailed):
            message = terminal.failure.message if isinstance(terminal, RunFailed) else step.why
            response |= {"status": "failed", "error": {"code": "server_error", "message": message}}
        elif isinstance(terminal, RunAsked) or (isinstance(terminal, RunCompleted) and terminal.stop != "max_tokens"):
            response["status"] = "completed"
        else:
            reason = "max_output_tokens" if terminal.stop == "max_tokens" else None
            response |= {"status": "incomplete", "incomplete_details": {"reason": reason} if reason else None}
        if terminal is not None:
            used = terminal.usage
            response["usage"] = {
                "input_tokens": used.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": used.cache_read_tokens,
                    "cache_write_tokens": used.cache_write_tokens,
                },
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
                "total_tokens": used.total_tokens,
            }
        yield {"type": f"response.{response['status']}", "response": self._now()}
