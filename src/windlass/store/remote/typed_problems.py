"""What a server says went wrong, as the errors that the same would have been here."""

from __future__ import annotations

from typing import Any

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
    StorePoisoned,
    UsageError,
    WindlassError,
)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A problem as a server tells it."""

    status: int = 0
    code: str = ""
    detail: str = ""
    error: str = ""
    facts: dict[str, Any] = {}


PLAIN: dict[str, type[WindlassError]] = {
    kind.__name__: kind
    for kind in (
        CodecError,
        CommandTaken,
        KernelError,
        NotFound,
        SeqConflict,
        StaleEpoch,
        StorageFull,
        StoreError,
        StorePoisoned,
        UsageError,
    )
}
"""Errors that have nothing but a message."""

DETAIL_CHARS_MAX = 2_000
MISTAKES = range(400, 500)


def error_of(data: bytes, status: int, url: str) -> WindlassError:
    """The error that an answer stands for."""
    try:
        told = msgspec.json.decode(data, type=Told)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return StoreError(f"{url} answered with status {status}, and not as a server of ours")
    detail = told.detail[:DETAIL_CHARS_MAX]
    match told.error:
        case "Refused":
            return Refused(told.code, detail)
        case "LeaseHeld":
            return LeaseHeld(detail, owner=str(told.facts.get("owner", "")), until_ms=_number(told, "until_ms") or 0)
        case "Damaged":
            return Damaged(detail, seq=_number(told, "seq"))
        case kind if kind in PLAIN:
            return PLAIN[kind](detail)
        case _:
            return UsageError(f"{url}: {detail}") if status in MISTAKES else StoreError(f"{url}: {detail}")


def _number(told: Told, name: str) -> int | None:
    fact = told.facts.get(name)
    return fact if isinstance(fact, int) else None
