"""What a model sees: the portable form of a conversation, independent of any provider's wire format.

A request is instructions, tools and settings, then the items of the history, then the task state. Items are
rendered from the log; they are never stored themselves.
"""

from __future__ import annotations

from typing import Any, Literal

from .blocks import InputBlock, JsonObject, Nat, Reasoning, Refusal, ResultBlock, ServerTool, Text, Value


class Item(Value, frozen=True, kw_only=True, tag_field="type"):
    """Base of the items of a history. `key` names where the item came from (its seq) and never changes,
    so that an encoder can keep the bytes it made for it."""

    key: str = ""


class UserItem(Item, frozen=True, kw_only=True, tag="user"):
    """Something said to the model: by a person, or by the runtime on someone's behalf (`origin`)."""

    content: tuple[InputBlock, ...]
    origin: str = "person"


class CallPart(Value, frozen=True, kw_only=True, tag_field="type", tag="call_part"):
    """A tool call inside an assistant item. `args` is an object; a grammar-based (custom) call has `text` instead.
    `call_id` is ours and unique; `provider_call_id` is what the provider called it. A call whose arguments did not
    parse is rendered with empty `args`; what the model really wrote is in `malformed`, and its result says so."""

    call_id: str
    tool: str
    args: JsonObject | None = None
    text: str | None = None
    provider_call_id: str | None = None
    malformed: str | None = None
    provider_data: JsonObject | None = None
    """What the provider wants back with this very call (a thought signature, an item id); for `provider` only."""


class ProposedCall(Value, frozen=True, kw_only=True):
    """A tool call as the model wrote it. Exactly one of `args` (an object), `text` (a custom call's input) and
    `malformed` (what could not be parsed, never executed) is set; `error` says what was wrong with it."""

    ordinal: Nat
    tool: str
    args: JsonObject | None = None
    text: str | None = None
    malformed: str | None = None
    error: str | None = None
    provider_call_id: str | None = None
    provider_data: JsonObject | None = None

    def __post_init__(self) -> None:
        if (self.args is not None) + (self.text is not None) + (self.malformed is not None) != 1:
            raise ValueError("a call has exactly one of args, text and malformed")


class ImagePart(Value, frozen=True, kw_only=True, tag_field="type", tag="image_part"):
    """An image that the assistant made, as text for models that cannot take it back."""

    media_type: str
    data: str | None = None
    note: str = ""


AssistantPart = Text | Reasoning | Refusal | ServerTool | CallPart | ImagePart


class AssistantItem(Item, frozen=True, kw_only=True, tag="assistant"):
    """One reply of a model, parts in its own order. `provider` and `model` say whose opaque parts these are."""

    content: tuple[AssistantPart, ...]
    provider: str | None = None
    model: str | None = None


class ResultItem(Item, frozen=True, kw_only=True, tag="result"):
    """The one result of a call. Results follow their assistant item in call order."""

    call_id: str
    tool: str
    content: tuple[ResultBlock, ...]
    is_error: bool = False
    provider_call_id: str | None = None


HistoryItem = UserItem | AssistantItem | ResultItem


class ToolSchema(Value, frozen=True, kw_only=True):
    """A tool as a model is told of it. `name` is the model's side name (an alias if one is set).
    `grammar` makes it a custom tool that takes text instead of an object."""

    name: str
    description: str
    parameters: JsonObject = {}
    strict: bool = False
    grammar: JsonObject | None = None


class ServerToolSchema(Value, frozen=True, kw_only=True):
    """A tool that the provider runs on its side, passed through as configuration."""

    name: str
    config: JsonObject = {}


class OutputSchema(Value, frozen=True, kw_only=True):
    """The JSON Schema that the final answer must satisfy."""

    name: str
    json_schema: JsonObject
    strict: bool = True


class ModelSettings(Value, frozen=True, kw_only=True):
    """What a caller may set on a request. `extra` goes to the provider as it is, but cannot override our own fields."""

    max_output_tokens: Nat | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tool_choice: Literal["auto", "none", "required"] | str = "auto"
    parallel_calls: bool | None = None
    thinking: Literal["off", "minimal", "low", "medium", "high"] | None = None
    thinking_budget_tokens: Nat | None = None
    cache: bool = True
    extra: dict[str, Any] = {}
