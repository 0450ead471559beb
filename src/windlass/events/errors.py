"""Every exception that Windlass raises on purpose, as one tree.

    WindlassError
    ├── KernelError          our bug or a damaged log; never caught below `runtime`
    │   ├── NotLegal         an event that the state does not allow where it stands
    │   └── Damaged          stored bytes that do not verify or cannot be read
    ├── Refused              a fact the state does not accept; nothing has changed
    ├── CodecError           bytes from outside that are not a value of ours
    │   └── NeedsNewer       written by a newer Windlass; the session opens read-only
    ├── StoreError           the store could not do it
    │   ├── StaleEpoch       another owner has taken the session since
    │   ├── SeqConflict      the log does not end where the writer thought
    │   ├── CommandTaken     this command id was taken before
    │   ├── LeaseHeld        another runner is alive on this session
    │   ├── StorageFull      no room; nothing was written, try again when there is
    │   └── StorePoisoned    an fsync failed; reopen and verify, nothing is acknowledged any more
    └── UsageError           the caller's mistake, with the fix in the message

The world's failures (a 429, a tool that raised) are not exceptions: they travel as values, see `failures`.
"""

from __future__ import annotations


class WindlassError(Exception):
    """Base of all errors raised on purpose."""


class KernelError(WindlassError):
    """Our bug, or a log that is not what we wrote."""


class NotLegal(KernelError):
    """An event was folded that its state does not allow."""


class Damaged(KernelError):
    """Stored bytes fail verification. Names the place; nothing behind it is trusted."""

    def __init__(self, message: str, *, seq: int | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.seq = seq
        self.offset = offset


class Refused(WindlassError):
    """A fact that does not fit the state. The state is unchanged."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CodecError(WindlassError):
    """Bytes that do not decode; the message carries the path and the reason."""


class NeedsNewer(CodecError):
    """An event that this version does not know and may not skip."""

    def __init__(self, tag: str, seq: int | None = None) -> None:
        where = f"event {seq}: " if seq is not None else ""
        super().__init__(
            f"{where}{tag!r} is not known to this version of windlass and may not be skipped: "
            "upgrade windlass to write to this session (reading up to this event still works)"
        )
        self.tag = tag
        self.seq = seq


class StoreError(WindlassError):
    """The store refused or failed."""


class StaleEpoch(StoreError):
    """The writer's epoch is not the session's: another owner has taken it."""


class SeqConflict(StoreError):
    """The append does not continue the log."""


class CommandTaken(StoreError):
    """A command id in `takes` was taken by an earlier append."""


class LeaseHeld(StoreError):
    """Another runner's lease on the session has not run out."""

    def __init__(self, message: str, *, owner: str, until_ms: int) -> None:
        super().__init__(message)
        self.owner = owner
        self.until_ms = until_ms


class StorageFull(StoreError):
    """There is no room. Nothing of the batch was written; it may be tried again."""


class StorePoisoned(StoreError):
    """A sync to disk failed. What the disk holds is unknown until the store is opened again."""


class NotFound(StoreError):
    """No such session, blob or command."""


class UsageError(WindlassError):
    """The caller's mistake. The message says what to do instead."""
