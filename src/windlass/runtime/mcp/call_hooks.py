"""Hooks at `before_mcp`: they see a call as it is about to be sent to a server, stop it, or set, replace and remove
what is sent beside its arguments (`_meta`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import UsageError
from windlass.mcp.plane import Asked, RuledCall

if TYPE_CHECKING:
    from windlass.runtime.hooks.session_hooks import SessionHooks

META_BYTES_MAX = 16 * 1024
RESERVED = ("progressToken", "io.modelcontextprotocol/")
"""How the keys begin that the protocol itself uses, which no hook sets."""


class CallHooks:
    """The hooks of one session, where calls of servers are made."""

    def __init__(self, hooks: SessionHooks) -> None:
        self._hooks = hooks

    async def ruled(self, asked: Asked, call_id: str) -> RuledCall:
        """What the hooks make of a call."""
        if not self._hooks.current.at("before_mcp", asked.display_name):
            return RuledCall()
        value = {**asked._asdict(), "meta": None}
        moment = self._hooks.moment("before_mcp", value, call_id=call_id, tool=asked.display_name)
        ruled = await self._hooks.current.run(moment)
        rulings = tuple(ruled.rulings)
        if ruled.denied is not None:
            return RuledCall(denied=ruled.denied.message or ruled.denied.hook_id, rulings=rulings)
        return RuledCall(meta=ruled.value["meta"] or None if ruled.changed else None, rulings=rulings)


def checked_meta(value: Any) -> None:
    """Raises `UsageError` for a value that says no `_meta`."""
    meta = value.get("meta", value) if isinstance(value, dict) else value
    if not isinstance(value, dict) or "meta" not in value or not isinstance(meta, dict | None):
        raise UsageError("at before_mcp the new value is a dict with 'meta': an object, or None for none")
    for name in meta or ():
        if name.startswith(RESERVED):
            raise UsageError(f"at before_mcp {name!r} is set by the protocol itself: leave it out")
    if len(msgspec.json.encode(meta)) > META_BYTES_MAX:
        raise UsageError(f"at before_mcp 'meta' has at most {META_BYTES_MAX} bytes")
