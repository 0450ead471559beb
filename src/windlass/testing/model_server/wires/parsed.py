"""A request as the server understood it, whatever format it came in, and what it keeps of each."""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec

from windlass.events.values.blocks import JsonObject

Format = Literal["anthropic", "openai", "responses", "gemini"]
"""The four wire formats: Anthropic Messages, Chat Completions, OpenAI Responses, Gemini generateContent."""

FORMATS: tuple[Format, ...] = ("anthropic", "openai", "responses", "gemini")

QUEUE_HEADER = "x-windlass-script"
"""Names the queue of answers that a request draws from."""

LANE_HEADER = "x-windlass-lane"
"""Names the stream of requests whose earlier bytes must be a prefix of the later ones."""


class ParsedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call found in a history."""

    call_id: str
    name: str
    args: Any = None


class ParsedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A tool result found in a history."""

    call_id: str
    text: str
    name: str = ""
    images: int = 0
    is_error: bool = False


class ParsedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a history. Results stand in messages of the role `tool`."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ParsedCall, ...] = ()
    results: tuple[ParsedResult, ...] = ()
    reasoning: str = ""
    images: int = 0
    documents: int = 0


class ParsedRequest(msgspec.Struct, kw_only=True):
    """What a script's function is given. `body` is the decoded request, `raw` its bytes."""

    format: Format
    model: str
    stream: bool
    system: str
    messages: list[ParsedMessage]
    tools: dict[str, JsonObject]
    body: JsonObject
    output_schema: JsonObject | None = None
    raw: bytes = b""
    headers: dict[str, str] = {}
    path: str = ""
    number: int = 0

    @property
    def prompt(self) -> str:
        """The text of the last user message."""
        return next((each.text for each in reversed(self.messages) if each.role == "user" and each.text), "")

    @property
    def results(self) -> tuple[ParsedResult, ...]:
        """The tool results that came in since the model last spoke."""
        results: list[ParsedResult] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            results = [*message.results, *results]
        return tuple(results)

    @property
    def turn(self) -> int:
        """How many times the model has spoken before, so 0 in the first request of a conversation."""
        spoken = 0
        last = ""
        for message in self.messages:
            if message.role == "assistant" and last != "assistant":
                spoken += 1
            last = message.role
        return spoken

    @property
    def lane(self) -> str:
        return self.headers.get(LANE_HEADER, "")

    @property
    def input_chars(self) -> int:
        """The size of what the model would read, for made-up usage and for the context window."""
        size = len(self.system) + sum(len(name) + len(str(tool)) for name, tool in self.tools.items())
        for message in self.messages:
            size += len(message.text) + len(message.reasoning)
            size += sum(len(each.name) + len(str(each.args)) for each in message.calls)
            size += sum(len(each.text) for each in message.results)
        return size


class Recorded(msgspec.Struct, kw_only=True):
    """One request as it arrived. `format` is empty for a path that no format serves; `error` says why it was refused;
    `fault` names the fault that was played."""

    number: int
    format: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    raw: bytes
    connection: int
    in_flight: int
    parsed: ParsedRequest | None = None
    status: int = 0
    error: str = ""
    fault: str = ""
    finished: bool = False
    client_left: bool = False
    sent: bytearray = msgspec.field(default_factory=bytearray)
    at_ms: int = msgspec.field(default_factory=lambda: time.monotonic_ns() // 1_000_000)

    @property
    def body(self) -> Any:
        """The body, decoded; raises for a body that is not JSON."""
        return msgspec.json.decode(self.raw)

    @property
    def lane(self) -> str:
        return self.headers.get(LANE_HEADER, "")
