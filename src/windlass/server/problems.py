"""What went wrong, as clients get it: one JSON object (RFC 9457) with a status, a code to act on and a sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from windlass.events.errors import (
    CodecError,
    CommandTaken,
    Damaged,
    KernelError,
    LeaseHeld,
    NotFound,
    Refused,
    SeqConflict,
    StaleEpoch,
    StorageFull,
    StoreError,
    UsageError,
    WindlassError,
)
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.result import Parked
from windlass.runtime.streams.cursors import CursorMismatch

from .http_answer import Answer

logger = logging.getLogger("windlass.server")

REFUSALS = {"too_large": 413, "malformed": 422, "no_content": 422, "not_for_clients": 403}
"""The status of a refusal by its code; of every other, 409: it does not fit now."""


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"kind": "type"}):
    """What went wrong."""

    status: int
    code: str
    """A word that a program can act on."""
    detail: str
    """What is wrong and what to do, for people."""
    path: str = ""
    """The field that it is about."""
    restart: str = ""
    """For a cursor that does not fit: the cursor to begin again at."""
    error: str = ""
    """Which of the errors of the Python package it is, for clients in Python."""
    facts: dict[str, str | int] = {}
    """What that error says besides."""


class Problem(Exception):
    """Something that is answered with a problem; raised by whoever finds it."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, path: str = ""
    ) -> None:
        super().__init__(detail)
        self.body = ProblemBody(status=status, code=code, detail=detail, path=path)
        self.headers = headers or {}


def problem_of(error: Exception) -> tuple[ProblemBody, dict[str, str]]:
    """An error as it is told, and the headers that go with it. What nobody foresaw is logged, and not told."""
    match error:
        case Problem():
            return error.body, error.headers
        case CursorMismatch():
            return ProblemBody(status=409, code="cursor_mismatch", detail=str(error), restart=error.restart), {}
        case WireError():
            return ProblemBody(status=422, code="malformed", detail=str(error), path=error.path), {}
        case Refused():
            status = REFUSALS.get(error.code, 409)
            return ProblemBody(status=status, code=error.code, detail=str(error), error="Refused"), {}
        case WindlassError():
            status, code = _of_ours(error)
            return ProblemBody(
                status=status, code=code, detail=str(error), error=_named(error), facts=_facts(error)
            ), {}
        case _:
            logger.error("a request failed", exc_info=error)
            return ProblemBody(status=500, code="failed", detail="the server failed; its log says why"), {}


def _named(error: WindlassError) -> str:
    """The name of an error, or of the nearest one above it that is in the tree of all."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == WindlassError.__module__)


def _facts(error: WindlassError) -> dict[str, str | int]:
    if isinstance(error, LeaseHeld):
        return {"owner": error.owner, "until_ms": error.until_ms}
    return {"seq": error.seq} if isinstance(error, Damaged) and error.seq is not None else {}


def _of_ours(error: WindlassError) -> tuple[int, str]:
    match error:
        case StaleEpoch():
            return 409, "stale_epoch"
        case SeqConflict():
            return 409, "seq_conflict"
        case CommandTaken():
            return 409, "command_taken"
        case NotFound():
            return 404, "not_found"
        case LeaseHeld():
            return 409, "held"
        case StorageFull():
            return 507, "storage_full"
        case StoreError():
            return 503, "store"
        case Parked():
            return 409, "parked"
        case UsageError():
            return 400, "usage"
        case Damaged() | KernelError():
            return 500, "damaged"
        case CodecError():
            return 422, "malformed"
        case _:
            return 500, "failed"


ProblemForm = Callable[[ProblemBody], bytes]
"""How the clients of a protocol are told what went wrong, as JSON."""


def answer_of(error: Exception, form: ProblemForm | None = None) -> Answer:
    """An error as an answer, in the form of a route that has its own."""
    body, headers = problem_of(error)
    if body.status == 503:
        headers = {"Retry-After": "1", **headers}
    if form is not None:
        return Answer(status=body.status, body=form(body), headers=headers)
    return Answer(status=body.status, body=msgspec.json.encode(body), media="application/problem+json", headers=headers)
