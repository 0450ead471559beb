"""How a background job ended: one typed word that counts, and a text beside it that is only shown."""

from __future__ import annotations

from typing import Any, Literal

from .closed_words import JobStatus, OperationStatus, Wire


class Operation(Wire, frozen=True, kw_only=True):
    """How an operation came to its end, with what belongs to that: a result, an error or a reason."""

    outcome: Literal["completed", "failed", "aborted", "cancelled", "retired", "terminated"]
    detail: Any = None


ENDED: dict[OperationStatus, JobStatus] = {
    "completed": "completed",
    "failed": "failed",
    "aborted": "aborted",
    "cancelled": "cancelled",
    "retired": "retired",
    "terminated": "terminated",
}


def status_of_outcome(operation: Operation) -> JobStatus:
    """The status of a job whose operation has ended."""
    return operation.outcome


def status_of_operation(status: OperationStatus) -> JobStatus | None:
    """The status of a job by that of its operation; None if that has not ended."""
    return ENDED.get(status)
