"""An answer to a request: a status, bytes and headers; every answer tells browsers to make nothing of it."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.types import Send

GUARDED = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Referrer-Policy": "no-referrer",
}
"""What every answer says to a browser, should one ever show it."""


NO_CONTENT = 204


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    media: str = "application/json"
    headers: dict[str, str] = {}

    async def send(self, send: Send, more: dict[str, str], *, bare: bool = False) -> None:
        """Sends it, with some more headers; `bare` leaves the body out."""
        about = {"Content-Type": self.media, "Content-Length": str(len(self.body))} if self.status != NO_CONTENT else {}
        said = {**GUARDED, **about, **self.headers, **more}
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in said.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if bare else self.body})


_encode = msgspec.json.Encoder(enc_hook=str).encode


def told(value: Any, status: int = 200, **headers: str) -> Answer:
    """A value as JSON."""
    return Answer(status=status, body=_encode(value), headers=headers)
