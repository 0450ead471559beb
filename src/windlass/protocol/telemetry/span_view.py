"""The log of one session as GenAI spans and measurements: a fold that needs nothing but its records.

A run is `invoke_agent` (`invoke_workflow` if the session is a workflow), a request `chat`, a call `execute_tool`; the
last two are below their run. A child's runs are below its parent's call. Spans are given when they end; what was said
is in them only if `content` is asked for.
"""

from __future__ import annotations

import msgspec

from windlass.events.commands import PromptReceived
from windlass.events.live import Live
from windlass.events.runs import RunFailed, RunStarted, Terminal
from windlass.events.sessions import AgentChanged, SessionForked, SessionImported, SessionResumed, SessionStarted
from windlass.events.tools.calls import (
    ResultBody,
    ResultReceived,
    ToolCancelled,
    ToolDelegated,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolRequested,
    ToolResolved,
    ToolSettled,
    ToolStarted,
    ToolTimedOut,
)
from windlass.events.trees.children import ChildFinished, ChildOpened, ChildStarted
from windlass.events.turns import ModelDropped, ModelFailed, ModelReplied, ModelRequested
from windlass.events.values.blocks import CallSlot, Text
from windlass.events.values.traces import TraceContext, span_id, trace_context, trace_id
from windlass.events.values.usage import NANOS_PER_USD
from windlass.protocol.view import Told, UnknownRecord
from windlass.runtime.streams.record import Record

from . import names
from .span import Attribute, Form, Kind, Link, Measurement, Span

LOST = "owner_lost"
"""The error of what was under way when the process that did it died."""
STOPPED = "cancelled"
UNNAMED_PROVIDER = "_OTHER"
CONTENT_CHARS_MAX = 32_768


class OpenSpan(msgspec.Struct, kw_only=True):
    """A span that has begun."""

    span_id: str
    name: str
    kind: Kind = "internal"
    start_ms: int
    attributes: dict[str, Attribute] = {}


class SpanView:
    """Folds the records of one session. What a fork or a copy shares with its origin is the origin's, and not told."""

    def __init__(self, session: str, *, content: bool = False) -> None:
        self._session = session
        self._content = content
        self._own = False
        self._root = session
        self._parent = ""
        self._agent: dict[str, Attribute] = {}
        self._workflow = ""
        self._provider = UNNAMED_PROVIDER
        self._run: OpenSpan | None = None
        self._run_id = ""
        self._links: tuple[Link, ...] = ()
        self._brought: TraceContext | None = None
        self._requests: dict[str, OpenSpan] = {}
        self._calls: dict[str, OpenSpan] = {}
        self._tools: dict[str, ToolRequested] = {}
        self._said: dict[str, str] = {}

    def feed(self, told: Told) -> list[Form]:
        """The spans that ended with a record, and what is measured by it."""
        if isinstance(told, Live | UnknownRecord):
            return []
        forms = self._fed(told)
        return forms if self._own else []

    def _fed(self, record: Record) -> list[Form]:
        at = record.at_ms
        match record.event:
            case SessionStarted() | SessionForked() | SessionImported() as event:
                self._named(event)
            case AgentChanged(agent=agent):
                self._agent |= {names.AGENT_NAME: agent.name}
            case SessionResumed():
                return self._lost(at)
            case PromptReceived(command_id=name, body=body) if self._content and body is not None:
                self._said[name] = "".join(block.text for block in body.content if isinstance(block, Text))
            case RunStarted() as event:
                self._began(event, record)
            case Terminal() as event:
                return self._ended(event, at)
            case ModelRequested() as event:
                self._asked(event, record)
            case ModelReplied() as event:
                return self._replied(event, at)
            case ModelFailed(request_id=name, failure=failure):
                return self._request_over(name, at, failure.kind)
            case ModelDropped(request_id=name):
                return self._request_over(name, at, STOPPED)
            case event:
                return self._of_call(event, record)
        return []

    # --- who ---

    def _named(self, event: SessionStarted | SessionForked | SessionImported) -> None:
        self._own = event.session_id == self._session
        if isinstance(event, SessionStarted):
            agent = event.setup.agent
            self._agent = {names.AGENT_NAME: agent.name, names.AGENT_ID: agent.name}
            if agent.version:
                self._agent[names.AGENT_VERSION] = agent.version
            self._workflow = agent.name if event.setup.flow is not None else ""
            self._provider = _provider(event.setup.model.provider)
            self._root = event.root_id or event.session_id
            if event.parent_id is not None and event.parent_call_id is not None:
                self._parent = span_id(event.parent_id, event.parent_call_id)
        elif self._own:
            self._root, self._parent = event.session_id, ""
            self._run, self._requests, self._calls = None, {}, {}

    def _base(self) -> dict[str, Attribute]:
        return {names.CONVERSATION_ID: self._session, **self._agent, names.RUN: self._run_id}

    # --- runs ---

    def _began(self, event: RunStarted, record: Record) -> None:
        self._links = ()
        if event.continues is not None:
            before = self._brought.trace_id if self._brought is not None else trace_id(self._root)
            self._links = (Link(trace_id=before, span_id=span_id(self._session, event.continues)),)
        self._brought = trace_context(event.trace)
        self._run_id = event.run_id
        operation = names.INVOKE_WORKFLOW if self._workflow else names.INVOKE_AGENT
        about = self._base() | {names.OPERATION_NAME: operation, names.RUN_TRIGGER: event.trigger}
        about[names.PROVIDER_NAME] = self._provider
        if self._workflow:
            about[names.WORKFLOW_NAME] = self._workflow
        if said := [self._said.pop(name) for name in event.commands if name in self._said]:
            about[names.INPUT_MESSAGES] = _messages([_message("user", text) for text in said])
        self._run = OpenSpan(
            span_id=span_id(self._session, event.run_id),
            name=f"{operation} {self._agent.get(names.AGENT_NAME, '')}".strip(),
            start_ms=record.at_ms,
            attributes=about | {names.SEQ: record.seq},
        )

    def _ended(self, event: Terminal, at: int) -> list[Form]:
        forms: list[Form] = []
        for name in tuple(self._requests):
            forms += self._request_over(name, at, STOPPED)
        run, self._run = self._run, None
        if run is None:
            return forms
        status = event.__struct_config__.tag
        run.attributes |= {
            names.RUN_STATUS: str(status).partition(".")[2],
            names.RUN_STOP: event.stop,
            names.USAGE_INPUT_TOKENS: event.usage.input_tokens,
            names.USAGE_OUTPUT_TOKENS: event.usage.output_tokens,
            names.COST_USD: event.cost_nanos / NANOS_PER_USD,
        }
        error = event.failure.kind if isinstance(event, RunFailed) else ""
        parent = self._brought.span_id if self._brought is not None else self._parent
        return [*forms, self._span(run, at, parent, error, self._links)]

    def _span(self, span: OpenSpan, at: int, parent: str, error: str = "", links: tuple[Link, ...] = ()) -> Span:
        about = span.attributes | ({names.ERROR_TYPE: error} if error else {})
        return Span(
            trace_id=self._brought.trace_id if self._brought is not None else trace_id(self._root),
            span_id=span.span_id,
            parent_id=parent,
            name=span.name,
            kind=span.kind,
            start_ms=span.start_ms,
            end_ms=max(at, span.start_ms),
            attributes=about,
            error=error,
            links=links,
            flags=self._brought.flags if self._brought is not None else 1,
        )

    def _below(self) -> str:
        return span_id(self._session, self._run_id) if self._run_id else self._parent

    def _lost(self, at: int) -> list[Form]:
        """A new owner: whatever its predecessor had under way is told again, or never."""
        forms: list[Form] = []
        for name in tuple(self._requests):
            forms += self._request_over(name, at, LOST)
        return forms

    # --- requests ---

    def _asked(self, event: ModelRequested, record: Record) -> None:
        about = self._base() | {
            names.OPERATION_NAME: names.CHAT,
            names.PROVIDER_NAME: self._provider,
            names.REQUEST_MODEL: event.model,
            names.LANE: event.lane,
            names.ATTEMPT: event.attempt,
            names.SEQ: record.seq,
        }
        if event.output_tokens:
            about[names.REQUEST_MAX_TOKENS] = event.output_tokens
        self._requests[event.request_id] = OpenSpan(
            span_id=span_id(self._session, event.request_id),
            name=f"{names.CHAT} {event.model}",
            kind="client",
            start_ms=record.at_ms,
            attributes=about,
        )

    def _replied(self, event: ModelReplied, at: int) -> list[Form]:
        span = self._requests.get(event.request_id)
        if span is None:
            return []
        about, usage = span.attributes, event.usage
        about |= {
            names.RESPONSE_FINISH_REASONS: (event.finish,),
            names.USAGE_INPUT_TOKENS: usage.input_tokens,
            names.USAGE_OUTPUT_TOKENS: usage.output_tokens,
        }
        optional: dict[str, Attribute | None] = {
            names.PROVIDER_NAME: _provider(event.provider) if event.provider else None,
            names.RESPONSE_MODEL: event.model or None,
            names.RESPONSE_ID: event.response_id,
            names.USAGE_CACHE_READ_INPUT_TOKENS: usage.cache_read_tokens or None,
            names.USAGE_CACHE_CREATION_INPUT_TOKENS: usage.cache_write_tokens or None,
            names.USAGE_REASONING_OUTPUT_TOKENS: usage.reasoning_tokens or None,
        }
        about |= {name: value for name, value in optional.items() if value is not None}
        forms: list[Form] = []
        if event.first_output_ms is not None:
            about[names.RESPONSE_TIME_TO_FIRST_CHUNK] = event.first_output_ms / 1_000
            forms.append(self._measured(names.TIME_TO_FIRST_CHUNK, event.first_output_ms / 1_000, at, about))
        if event.cost_nanos is not None:
            about[names.COST_USD] = event.cost_nanos / NANOS_PER_USD
        if self._content and event.body is not None:
            about[names.OUTPUT_MESSAGES] = _reply(event)
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if not usage.estimated:
                forms.append(self._measured(names.TOKEN_USAGE, count, at, about | {names.TOKEN_TYPE: kind}))
        return [*forms, *self._request_over(event.request_id, at, "")]

    def _request_over(self, name: str, at: int, error: str) -> list[Form]:
        span = self._requests.pop(name, None)
        if span is None:
            return []
        made = self._span(span, at, self._below(), error)
        seconds = (made.end_ms - made.start_ms) / 1_000
        return [self._measured(names.OPERATION_DURATION, seconds, at, made.attributes), made]

    def _measured(self, metric: str, value: float, at: int, about: dict[str, Attribute]) -> Measurement:
        kept = {name: about[name] for name in MEASURED_BY if name in about}
        return Measurement(metric=metric, value=value, at_ms=at, attributes=kept)

    # --- calls ---

    def _of_call(self, event: object, record: Record) -> list[Form]:
        at = record.at_ms
        match event:
            case ToolRequested(call_id=name):
                self._tools[name] = event
            case ToolStarted(call_id=name, attempt=attempt):
                lost = self._call_over(name, at, LOST)
                self._call_began(name, record, attempt)
                return lost
            case ToolDelegated(call_id=name) | ChildStarted(call_id=name):
                self._call_began(name, record)
            case ToolFinished(call_id=name, ok=ok, failure=failure, error_code=code, body=body):
                error = "" if ok else failure.kind if failure is not None else code or "tool_error"
                return self._call_over(name, at, error, body)
            case ResultReceived(call_id=name, ok=ok, error_code=code, body=body):
                return self._call_over(name, at, "" if ok else code or "tool_error", body)
            case ChildFinished(call_id=name, ok=ok, status=status, body=body):
                return self._call_over(name, at, "" if ok else status, body)
            case ToolResolved(call_id=name, ok=ok):
                self._call_began(name, record)
                return self._call_over(name, at, "" if ok else "tool_error")
            case ToolTimedOut(call_id=name):
                return self._call_over(name, at, "timeout")
            case ToolOutcomeUnknown(call_id=name):
                return self._call_over(name, at, LOST)
            case ToolCancelled(call_id=name):
                return self._call_over(name, at, STOPPED)
            case ChildOpened(call_id=name) | ToolSettled(call_id=name):
                return self._call_over(name, at, "")
        return []

    def _call_began(self, name: str, record: Record, attempt: int = 1) -> None:
        asked = self._tools.get(name)
        if asked is None or name in self._calls:
            return
        about = self._base() | {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: asked.tool,
            names.TOOL_CALL_ID: name,
            names.TOOL_TYPE: "function",
            names.ATTEMPT: attempt,
            names.SEQ: record.seq,
        }
        if self._content and asked.body is not None:
            given = asked.body.args if asked.body.args is not None else asked.body.text
            about[names.TOOL_CALL_ARGUMENTS] = _json(given)
        self._calls[name] = OpenSpan(
            span_id=span_id(self._session, name, attempt),
            name=f"{names.EXECUTE_TOOL} {asked.tool}",
            start_ms=record.at_ms,
            attributes=about,
        )

    def _call_over(self, name: str, at: int, error: str, body: ResultBody | None = None) -> list[Form]:
        span = self._calls.pop(name, None)
        if span is None:
            return []
        if self._content and body is not None:
            span.attributes[names.TOOL_CALL_RESULT] = _json(msgspec.to_builtins(body.content))
        if error != LOST:
            self._tools.pop(name, None)
        return [self._span(span, at, self._below(), error)]


MEASURED_BY = (
    *(names.OPERATION_NAME, names.PROVIDER_NAME, names.REQUEST_MODEL, names.RESPONSE_MODEL),
    *(names.TOKEN_TYPE, names.ERROR_TYPE),
)
"""What measurements are told apart by: few values each, so that they can be added up."""


def _provider(name: str) -> str:
    return names.PROVIDERS.get(name, name) or UNNAMED_PROVIDER


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()[:CONTENT_CHARS_MAX]


def _message(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _messages(messages: list[dict[str, object]]) -> str:
    return _json(messages)


def _reply(event: ModelReplied) -> str:
    assert event.body is not None
    parts: list[dict[str, object]] = []
    for block in event.body.blocks:
        if isinstance(block, Text):
            parts.append({"type": "text", "content": block.text})
        elif isinstance(block, CallSlot) and block.ordinal < len(event.body.calls):
            call = event.body.calls[block.ordinal].call
            parts.append({"type": "tool_call", "name": call.tool, "arguments": call.args or call.text})
    return _messages([{"role": "assistant", "parts": parts, "finish_reason": event.finish}])
