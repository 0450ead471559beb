"""How large what is given to a store may be, and how long a lease may last. Refused before anything is touched, and the
same in every store, so that a session can move between them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.events.errors import UsageError
from windlass.events.stored.record import APPEND_BYTES_MAX, Sealed
from windlass.store.base import (
    BLOB_BYTES_MAX,
    COMMAND_BYTES_MAX,
    LEASE_MS_MAX,
    InboxCommand,
    IndexRow,
    Key,
    Message,
    blob_digest,
)

from .ids import check_id, check_key


def check_ttl(ttl_ms: int) -> int:
    """How long a lease is to last, if one may last so long."""
    if not 0 <= ttl_ms <= LEASE_MS_MAX:
        raise UsageError(f"a lease lasts 0 to {LEASE_MS_MAX} ms, not {ttl_ms}")
    return ttl_ms


def check_command(command: InboxCommand) -> None:
    """Refuses a command whose id or size is out of bounds."""
    check_id("command id", command.command_id)
    if len(command.data) > COMMAND_BYTES_MAX:
        raise UsageError(
            f"command {command.command_id!r} has {len(command.data)} bytes, the most is {COMMAND_BYTES_MAX}"
        )


def check_sealed(key: Key, sealed: Sealed, index: IndexRow | None = None) -> None:
    """Refuses an append that no store could keep as one line, or an index row of another session."""
    if len(sealed.data) > APPEND_BYTES_MAX:
        raise UsageError(
            f"append {sealed.first_seq} has {len(sealed.data)} bytes, the most is {APPEND_BYTES_MAX}: "
            "put large payloads into blobs"
        )
    if sealed.data.find(b"\n") >= 0:
        raise UsageError(f"append {sealed.first_seq} holds a raw line break: encode its events without white space")
    if index is not None and (index.tenant != key.tenant or index.session != key.session):
        raise UsageError(
            f"the index row is of {index.tenant}/{index.session}, the append of {key.tenant}/{key.session}"
        )


def check_messages(key: Key, sends: Sequence[Message]) -> None:
    """Refuses messages whose receiver or size is out of bounds."""
    for message in sends:
        check_key(Key(key.tenant, message.session))
        check_command(message.command)
        if message.session == key.session:
            raise UsageError(f"session {key.session!r} cannot send a message to itself")


def check_blob(digest: str, data: bytes) -> None:
    """Refuses bytes that are too many or do not have this digest."""
    if len(data) > BLOB_BYTES_MAX:
        raise UsageError(f"blob {digest!r} has {len(data)} bytes, the most is {BLOB_BYTES_MAX}")
    if blob_digest(data) != digest:
        raise UsageError(f"the bytes given for blob {digest!r} have another digest")
