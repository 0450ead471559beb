"""Signed requests, as Standard Webhooks has them: HMAC-SHA256 over id, time and body, known to both sides by a secret.

A signature says who sent a body and when. Old ones are refused, so that what was overheard cannot be said again later.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from windlass.events.errors import UsageError

WINDOW_S = 300
"""How far the sender's clock may be from ours, and how long a request may be on its way."""
SECRET_BYTES_MIN = 24
PREFIX = "whsec_"
VERSION = "v1"
SIGNATURES_MAX = 8
ID_CHARS_MAX = 200


def secret_of(text: str) -> bytes:
    """A secret as bytes: `whsec_` and base64, or plain text. Raises `UsageError` for one that could be guessed."""
    text = text.strip()
    try:
        made = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else text.encode()
    except binascii.Error:
        raise UsageError(f"a secret that begins with {PREFIX!r} goes on in base64, and this one does not") from None
    if len(made) < SECRET_BYTES_MIN:
        raise UsageError(f"a secret of {len(made)} bytes can be guessed: take {SECRET_BYTES_MIN} at the least")
    return made


def signature(secret: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """What a sender writes into `webhook-signature`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return f"{VERSION},{base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()}"


def is_signed(secrets: Sequence[bytes], message_id: str, timestamp: str, given: str, body: bytes, now_s: float) -> bool:
    """Whether a request was signed with one of some secrets, lately. Takes as long whichever part is wrong."""
    in_time = timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12
    in_time = in_time and abs(now_s - int(timestamp)) <= WINDOW_S
    named = 0 < len(message_id) <= ID_CHARS_MAX and message_id.isascii() and message_id.isprintable()
    fits = False
    for secret in secrets:
        wanted = signature(secret, message_id, timestamp, body).encode()
        for one in given.split(" ")[:SIGNATURES_MAX]:
            fits |= hmac.compare_digest(wanted, one.encode("utf-8", "replace"))
    return fits and in_time and named
