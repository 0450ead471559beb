"""What endpoints demand beyond their wire format, as profiles that refuse a request which ignores it.

Each profile says in its `why` what was found documented, and where. Nothing here is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from .parsed import Format, ParsedRequest

Auth = Literal["vendor", "bearer", "api-key", "none"]


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile's check may look at besides the request itself."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


Check = Callable[[ParsedRequest, Context], None]


def accept(request: ParsedRequest, context: Context) -> None:
    """No demand of its own."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint. `call_ids` is the pattern of the ids it makes (empty: the vendor's); `reasoning_field`
    where it puts reasoning; `auth` how the key is sent (`vendor`: as the wire format's own vendor does)."""

    name: str
    format: Format = "openai"
    call_ids: str = ""
    reasoning_field: str = "reasoning_content"
    auth: Auth = "bearer"
    check: Check = accept
    strict_fields: bool = False
    why: str = ""


OPEN = Profile(name="", auth="vendor", strict_fields=True)
"""The vendor itself: no quirks beyond the wire format."""

CALL_IDS: dict[Format, str] = {
    "anthropic": "toolu_{}",
    "openai": "call_{}",
    "responses": "call_{}",
    "gemini": "fc{}",
}

PROFILES: dict[str, Profile] = {}
