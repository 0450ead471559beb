"""What a client's text says to something that is asked: clients of OpenAI's API answer every call with a text."""

from __future__ import annotations

import msgspec

from windlass.protocol.exchanges.answers import Ask
from windlass.runtime.api.approvals import PermissionAsk


def answer_in(ask: Ask, text: str) -> object:
    """An answer as JSON, or in words. Only a plain yes allows something."""
    try:
        said = msgspec.json.decode(text)
    except msgspec.DecodeError:
        said = text
    if isinstance(said, dict | bool) or not (isinstance(ask, PermissionAsk) or ask.kind == "plan"):
        return said if isinstance(said, dict | bool) else text
    word = text.strip().lower().rstrip(".!")
    return {"approved": word in ("approve", "approved", "yes"), "feedback": text}
