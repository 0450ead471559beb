"""What a vendor remembers between requests: stored responses, and which opaque content it made for what."""

from __future__ import annotations

from typing import Any

from windlass.events.values.blocks import JsonObject
from windlass.testing.model_server.wires.openai_responses import items_of
from windlass.testing.model_server.wires.wire import Made, WireRefused, objects

from .answers import Call, Think

REMEMBERED = 10_000
"""How many responses and signatures are kept; the oldest go first."""


class Memory:
    """State that outlives a request. Bounded; forgotten with the server."""

    def __init__(self) -> None:
        self.signed: dict[str, str] = {}
        self.stored: dict[str, list[JsonObject]] = {}
        self.items: dict[str, bool] = {}
        """Ids of the items of stored responses."""
        self.unthinking: dict[str, bool] = {}
        """Calls that this server made without any thinking before them, so that none can be asked back."""
        self.preceded: dict[str, str] = {}
        """For an output item's id, the id of the reasoning item that stood right before it."""

    def input_of(self, body: JsonObject) -> list[Any]:
        """The whole input of a Responses request: what the server kept, then what came now."""
        given = body.get("input")
        now = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
        previous = body.get("previous_response_id")
        if previous is None:
            return now if isinstance(now, list) else []
        if not isinstance(previous, str) or previous not in self.stored:
            raise WireRefused(
                f"Previous response with id '{previous}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
                rule="responses.previous",
            )
        return [*self.stored[previous], *(now if isinstance(now, list) else [])]

    def remember(self, made: Made) -> None:
        """Keeps what later requests are checked against."""
        thought = False
        for part in made.parts:
            if isinstance(part, Think):
                thought = True
                if part.opaque is not None:
                    self.signed[part.opaque] = part.text
            elif isinstance(part, Call):
                if part.opaque is not None:
                    self.signed[part.opaque] = part.name
                if not thought and part.call_id is not None:
                    self.unthinking[part.call_id] = True
        if made.request.format == "responses":
            self._remember_response(made)
        for table in (self.signed, self.stored, self.items, self.unthinking, self.preceded):
            while len(table) > REMEMBERED:
                table.pop(next(iter(table)))

    def _remember_response(self, made: Made) -> None:
        body, items = made.request.body, items_of(made)
        kept = body.get("store", True) is not False
        before: JsonObject | None = None
        for item in items:
            if before is not None and before["type"] == "reasoning" and item["type"] != "reasoning":
                self.preceded[item["id"]] = before["id"]
            before = item
        if kept:
            history = objects(self.input_of(body))
            self.stored[made.name("resp_")] = [*history, *items]
            self.items.update((item["id"], True) for item in items)
