"""Which ids a store accepts, and how they become file names. The same rules hold in every store, so that a session can
move between them."""

from __future__ import annotations

import functools
import hashlib
import re

from windlass.events.errors import UsageError
from windlass.store.base import (
    ID_CHARS_MAX,
    Key,
    Origin,
)

FILE_NAME_CHARS_MAX = 120
"""Longer encoded ids are cut and end in a digest: file systems stop at 255 bytes."""

KEYS_KNOWN_MAX = 4_096
"""Keys that passed are remembered: every append asks."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-.")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def check_id(what: str, text: str) -> str:
    """The id, if a store may use it. Raises `UsageError` otherwise, before anything is touched."""
    if not text or len(text) > ID_CHARS_MAX:
        raise UsageError(f"a {what} must have 1 to {ID_CHARS_MAX} characters, not {len(text)}")
    if not text.isprintable() or "/" in text or "\\" in text or text in (".", ".."):
        raise UsageError(
            f"{what} {text!r} is not allowed: use printable characters without '/' and '\\', and not '.' or '..'"
        )
    if text[0] == " " or text[-1] == " ":
        raise UsageError(f"{what} {text!r} is not allowed: it begins or ends with a space")
    return text


@functools.lru_cache(maxsize=KEYS_KNOWN_MAX)
def check_key(key: Key) -> Key:
    """The key, if both ids are allowed."""
    check_id("tenant", key.tenant)
    check_id("session id", key.session)
    return key


def check_origin(key: Key, origin: Origin) -> None:
    """Refuses an origin that no session could have."""
    check_id("origin session id", origin.session)
    if origin.session == key.session:
        raise UsageError(f"session {key.session!r} cannot continue itself")
    if origin.seq < 1:
        raise UsageError(f"a fork begins behind an append of its origin, not at seq {origin.seq}")


def check_digest(digest: str) -> str:
    """The digest, if it is one."""
    if not _DIGEST.match(digest):
        raise UsageError(f"{digest!r} is not a blob digest: it has the form sha256:<64 hex digits>")
    return digest


def file_name(text: str) -> str:
    """A name that is safe on every file system, distinct for distinct ids also if case does not count."""
    encoded = "".join(c if c in _PLAIN else "".join(f"={byte:02x}" for byte in c.encode()) for c in text)
    if encoded.startswith("."):
        encoded = "=2e" + encoded[1:]
    if encoded.endswith("."):
        encoded = encoded[:-1] + "=2e"
    if len(encoded) <= FILE_NAME_CHARS_MAX:
        return encoded
    # '=~' cannot come out of the encoding above, so a cut name never meets an uncut one.
    return f"{encoded[:60]}=~{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def other_origin(key: Key, origin: Origin | None) -> UsageError:
    """What is said to whoever would begin a session that is there already and began otherwise."""
    began = "is no fork" if origin is None else f"is a fork of {origin.session!r} at record {origin.seq}"
    return UsageError(f"session {key.session!r} exists already and {began}: choose another id")
