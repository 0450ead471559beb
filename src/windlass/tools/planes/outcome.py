"""What came of one run of a tool: a result, a time-out or a suspension, ready to become a fact.

An exception is a result too. What the model is told of it is safe; its full text is kept for the log.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any, Literal

import msgspec

from windlass.events.hooks import HookRuling
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.tools.calls import CallBody, ResultBody, ToolFinished, ToolSuspended, ToolTimedOut
from windlass.events.tools.jobs import JobBody, JobStarted
from windlass.events.values.blocks import Data, Resource, ResourceLink, ResultBlock, Terminal, Text
from windlass.events.values.failures import Failure, FailureKind
from windlass.events.workspace import FileChange
from windlass.tools.context import Suspend, ToolError
from windlass.tools.jobs.job_host import Background
from windlass.tools.types.plain_values import NotPlain, scalar_text, to_plain

from .generators import Pieces
from .large_output import Blob
from .results import Rendered, ToolResult, rendered

PRIVATE_ERROR_CHARS_MAX = 64 * 1024
TRACEBACK_FRAMES_MAX = 50
TOLD_CHARS_MAX = 8 * 1024

GONE = "the call was given up before it could begin"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a tool. The caller keeps `blobs` before it records the fact that refers to them."""

    status: Literal["finished", "timed_out", "suspended", "job"] = "finished"
    ok: bool = True
    failure: Failure | None = None
    error_code: str | None = None
    body: ResultBody | None = None
    payload: CallBody | None = None
    note: str = ""
    size: int = 0
    spooled: int = 0
    timeout_ms: int = 0
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    job: Background | None = None
    """The command goes on in the background, as this job."""
    blobs: tuple[Blob, ...] = ()
    hooks: tuple[HookRuling, ...] = ()
    """What hooks ruled where the call was made."""

    def fact(
        self,
        call_id: str,
        *,
        duration_ms: int = 0,
        tokens: int = 0,
        hooks: tuple[HookRuling, ...] = (),
        settle: bool = False,
    ) -> ToolFinished | ToolTimedOut | ToolSuspended | JobStarted:
        """The fact that says so. `tokens` is the caller's estimate of the content; `settle` says whether a person is
        asked about a call whose outcome is unknown."""
        hooks = (*self.hooks, *hooks)
        if self.job is not None:
            return JobStarted(
                call_id=call_id,
                job_id=self.job.job_id,
                late=self.job.late,
                detached=self.job.detached,
                tokens=tokens,
                bytes=self.size,
                labels=self.labels,
                changes=self.changes,
                hooks=hooks,
                body=JobBody(title=self.job.title, content=self.body.content if self.body else self.job.content),
            )
        if self.status == "suspended":
            return ToolSuspended(
                call_id=call_id, note=self.note, labels=self.labels, changes=self.changes, body=self.payload
            )
        if self.status == "timed_out":
            return ToolTimedOut(
                call_id=call_id,
                timeout_ms=self.timeout_ms,
                settle=settle,
                tokens=tokens,
                labels=self.labels,
                changes=self.changes,
                body=self.body,
            )
        return ToolFinished(
            call_id=call_id,
            ok=self.ok,
            failure=self.failure,
            error_code=self.error_code,
            tokens=tokens,
            bytes=self.size,
            duration_ms=duration_ms,
            spooled_bytes=self.spooled,
            labels=self.labels,
            changes=self.changes,
            hooks=hooks,
            body=self.body,
        )

    @property
    def text(self) -> str:
        """What the model reads: texts and what was printed as they are, data as JSON; of media only that they are
        there."""
        return "\n".join(_read(block) for block in (self.body.content if self.body else ()))


def _read(block: ResultBlock) -> str:
    match block:
        case Text(text=text) | Terminal(text=text) | Resource(text=str(text)):
            return text
        case Data(value=value):
            return msgspec.json.encode(value).decode()
        case ResourceLink(uri=uri, name=name):
            return f"[{name}]({uri})"
    return f"[{type(block).__name__.lower()}]"


def returned(value: Any) -> Outcome:
    """The outcome of a tool that returned. A value without a form is an error result that says where."""
    if isinstance(value, Suspend):
        return suspended(value)
    if isinstance(value, Background):
        return in_background(value)
    try:
        extra = value if isinstance(value, ToolResult) else None
        rendering = value.rendered() if isinstance(value, Pieces) else rendered(extra.value if extra else value)
        display = rendered(extra.display).content if extra and extra.display is not None else None
        return _finished(rendering, display, extra)
    except NotPlain as error:
        return raised(error)
    except Exception as error:
        # Authors' code runs here too: properties, iterators, dumps.
        told = "the tool's result cannot be read"
        return failed("tool_result_invalid", told, told, private=full_text(error))


def _finished(rendering: Rendered, display: Any, extra: ToolResult | None) -> Outcome:
    telemetry = to_plain(extra.telemetry) if extra and extra.telemetry is not None else None
    return Outcome(
        ok=extra.ok if extra else True,
        error_code=extra.error_code if extra else None,
        labels=extra.labels if extra else (),
        changes=extra.changes if extra else (),
        body=ResultBody(content=rendering.content, display=display, whole=rendering.whole, telemetry=telemetry),
        size=rendering.size,
        spooled=rendering.whole_size,
        blobs=rendering.blobs,
    )


def in_background(job: Background) -> Outcome:
    """The outcome of a tool whose command goes on as a job."""
    rendering = rendered(list(job.content))
    job = msgspec.structs.replace(job, content=rendering.content, title=SECRETS.hidden_text(scalar_text(job.title)))
    return Outcome(status="job", job=job, body=ResultBody(content=rendering.content), size=rendering.size)


def suspended(signal: Suspend) -> Outcome:
    """The outcome of a tool that parked itself."""
    try:
        payload = to_plain(signal.payload)
    except NotPlain as error:
        told = f"the tool's payload cannot be kept: {error}"
        return failed("tool_result_invalid", told, "the payload has no form", private=str(error))
    if not isinstance(payload, dict):
        told = f"the tool's payload cannot be kept: it is an object with names, not {type(payload).__name__}"
        return failed("tool_result_invalid", told, "the payload is no object")
    return Outcome(status="suspended", payload=CallBody(args=payload), note=scalar_text(signal.note))


def timed_out(timeout_ms: int) -> Outcome:
    """The outcome of a tool that did not end in time."""
    told = f"the tool did not end within {timeout_ms / 1000:g} s and was given up; it may have had effects"
    return Outcome(
        status="timed_out",
        ok=False,
        failure=Failure(kind="tool_timed_out", message=told),
        error_code="tool_timed_out",
        body=ResultBody(content=(Text(text=told),)),
        size=len(told),
        timeout_ms=timeout_ms,
    )


def raised(error: BaseException) -> Outcome:
    """The outcome of a tool that raised: what it wanted the model to know, or only the kind of error. Never raises:
    an exception of an author's own may break when it is looked at."""
    try:
        return _raised(error)
    except Exception as broken:
        told = f"the tool failed ({type(error).__name__}); the details are in the log"
        return failed("tool_raised", told, told, code=type(error).__name__, private=full_text(broken))


def _raised(error: BaseException) -> Outcome:
    if isinstance(error, Suspend):
        return suspended(error)
    private = full_text(error)
    if isinstance(error, NotPlain):
        where = f" at {error.path}" if error.path else ""
        told = f"the tool's result cannot be passed on{where}: {error.why}"
        return failed("tool_result_invalid", told, "the result has no form", private=private)
    if isinstance(error, ToolError) and error.for_model:
        told = scalar_text(error.told)
        behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        kept = private if behind is not None else None  # else it was told whole, and is no accident
        return failed("tool_raised", told, "the tool reported an error", code=error.code, private=kept)
    name = type(error).__name__
    kind: FailureKind = "tool_cancelled" if isinstance(error, asyncio.CancelledError) else "tool_raised"
    code = error.code if isinstance(error, ToolError) else None
    told = f"the tool failed ({name}); the details are in the log"
    return failed(kind, told, told, code=code or name, private=private)


def failed(
    kind: FailureKind, told: str, summary: str, *, code: str | None = None, private: str | None = None
) -> Outcome:
    """An error result. `told` goes to the model and `private` to the log, both as content that can be erased;
    `summary` stays in the log for good, so it names no data."""
    told = told if len(told) <= TOLD_CHARS_MAX else f"{told[:TOLD_CHARS_MAX]} […]"
    return Outcome(
        ok=False,
        failure=Failure(kind=kind, message=summary, code=code),
        error_code=code or kind,
        body=ResultBody(content=(Text(text=told),), private_error=private),
        size=len(told.encode("utf-8")),
    )


def full_text(error: BaseException) -> str:
    """An exception with its traceback, bounded; also where its own `__str__` fails."""
    try:
        lines = traceback.format_exception(error, limit=-TRACEBACK_FRAMES_MAX)
        text = scalar_text("".join(lines))
    except Exception:
        text = f"{type(error).__name__} (its text cannot be read)"
    if len(text) <= PRIVATE_ERROR_CHARS_MAX:
        return text
    half = PRIVATE_ERROR_CHARS_MAX // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
