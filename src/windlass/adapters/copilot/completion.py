"""What a client's message came to: the last answer to it, once its run has ended. Knows nothing of who waits."""

from __future__ import annotations

import asyncio

from windlass.events.values.blocks import JsonObject
from windlass.protocol.json_rpc.frames import INTERNAL
from windlass.protocol.json_rpc.rpc_peer import RpcError


class Completion:
    """One message, from its sending to the end of the run that took it."""

    def __init__(self, message_id: str) -> None:
        self.ended: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._message_id = message_id
        self._begun = False
        self._answer: JsonObject | None = None

    def hear(self, event: JsonObject) -> None:
        """One event that the session's clients are told, in their order."""
        if self.ended.done():
            return
        kind, data = event["type"], event["data"]
        origin = data.get("originatingMessageId")
        of_it = origin == self._message_id
        if kind == "user.message":
            self._begun = self._begun or data.get("messageId") == self._message_id
        elif kind == "assistant.message":
            if of_it:
                self._begun, self._answer = True, event
        elif kind == "session.error":
            if of_it or (origin is None and self._begun):
                self.ended.set_exception(RpcError(INTERNAL, f"Session error: {data['message']}"))
        elif kind == "session.idle" and self._begun:
            aborted = bool(data.get("aborted"))
            self.ended.set_result({"response": self._answer, "aborted": aborted, "completionEventId": event["id"]})

    def give_up(self) -> None:
        """Nobody tells what happens in the session any more."""
        if not self.ended.done():
            self.ended.set_exception(RpcError(INTERNAL, "the session was left before its answer was there"))
            self.ended.exception()  # whoever waited may be gone
