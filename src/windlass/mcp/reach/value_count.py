"""How many values a message of JSON holds, known before anybody builds them: a few bytes each become objects, and a
message full of them would hold up everything else for many seconds."""

from __future__ import annotations

VALUES_MAX = 200_000
SIGNS = (b",", b"[", b"{")
"""What a value that is no first one stands behind."""


class TooMany(Exception):
    """A server sent a message of more values than any may have."""


def check_values(message: bytes) -> None:
    """Raises `TooMany`. What stands in texts does not count, however much of it there is."""
    if len(message) <= VALUES_MAX:
        return
    plain = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = plain.count(b'"')
    if quotes <= 4 * VALUES_MAX:  # names and texts have two each
        outside = b"".join(plain.split(b'"')[::2])
        if sum(outside.count(sign) for sign in SIGNS) <= VALUES_MAX:
            return
    raise TooMany(f"it sent a message of more than {VALUES_MAX} values")
