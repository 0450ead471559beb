"""Anthropic Messages: how requests are written. Answers are read in `anthropic_reader`."""

from __future__ import annotations

from typing import Any

from windlass.events.values.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    Reasoning,
    Refusal,
    Resource,
    ResultBlock,
    ServerTool,
    Text,
)
from windlass.events.values.failures import Failure
from windlass.events.values.items import (
    AssistantItem,
    AssistantPart,
    CallPart,
    HistoryItem,
    ImagePart,
    ResultItem,
    ToolSchema,
    UserItem,
)
from windlass.models.base import ModelInfo, Reply, Request
from windlass.models.catalogue.endpoints import Endpoint, matches
from windlass.models.wires.encoded_history import Blobs, History, plain_json
from windlass.models.wires.partial_reply import Draft
from windlass.models.wires.plain_blocks import (
    EMPTY,
    IMAGE_TYPES,
    OUTPUT_NOTE,
    START,
    as_text,
    canonical,
    canonical_value,
    check_extra,
    check_names,
    decoded,
    gone,
    inline_data,
    is_text_media,
    object_schema,
    ordered_fields,
    text_parameters,
    wire_call_id,
    wire_tool_name,
)
from windlass.models.wires.wire_format import closing_text, tool_choice_name

from .reader import MessagesReader

OUTPUT_TOKENS = 8_192
THINKING_TOKENS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 24_576}
THINKING_TOKENS_MIN = 1_024
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
CACHE = b',"cache_control":{"type":"ephemeral"}'
CACHE_FIELD = {"cache_control": {"type": "ephemeral"}}
OWNED = frozenset(
    {
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "stream",
        "max_tokens",
        "temperature",
        "top_p",
        "stop_sequences",
        "cache_control",
    }
)


class MessagesHistory:
    """Messages in which the speakers take turns: what the same side says next goes into the message that is open."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo) -> None:
        self.buffer = bytearray()
        self.items: list[HistoryItem] = []
        self.blobs: Blobs = {}
        self._provider = endpoint.name
        self._info = info
        self.role = ""

    def _put(self, role: str, blocks: list[bytes]) -> None:
        if not blocks:
            return
        buffer = self.buffer
        if role == self.role:
            buffer += b","
        else:
            if not self.role and role == "assistant":
                self._put("user", [plain_json({"type": "text", "text": START})])
            if self.role:
                buffer += b"]},"
            buffer += b'{"role":"' + role.encode() + b'","content":['
            self.role = role
        buffer += b",".join(blocks)

    def add_user(self, item: UserItem) -> None:
        self._put("user", self._blocks(item.content) or [plain_json({"type": "text", "text": EMPTY})])

    def _blocks(self, content: tuple[InputBlock, ...] | tuple[ResultBlock, ...]) -> list[bytes]:
        return [plain_json(block) for part in content if (block := self._block(part)) is not None]

    def _block(self, block: InputBlock | ResultBlock) -> dict[str, Any] | None:
        text = as_text(block)
        if text is not None:
            return {"type": "text", "text": text} if text.strip() else None
        if isinstance(block, Image | Audio | Document | Resource):
            data = inline_data(block, self.blobs)
            if data is not None:
                return self._media(block, data)
        return {"type": "text", "text": gone(block)}

    def _media(self, block: Image | Audio | Document | Resource, data: str) -> dict[str, Any]:
        media_type = block.media_type or "application/octet-stream"
        if media_type in IMAGE_TYPES and self._info.images:
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        title = {"title": block.name} if isinstance(block, Document) and block.name else {}
        if media_type == "application/pdf":
            source = {"type": "base64", "media_type": media_type, "data": data}
            return {"type": "document", "source": source, **title}
        if is_text_media(media_type):
            source = {"type": "text", "media_type": "text/plain", "data": decoded(data)}
            return {"type": "document", "source": source, **title}
        return {"type": "text", "text": gone(block, "cannot be shown to this model")}

    def add_assistant(self, item: AssistantItem) -> None:
        blocks = [plain_json(block) for part in item.content if (block := self._part(part, item)) is not None]
        self._put("assistant", blocks)

    def _part(self, part: AssistantPart, item: AssistantItem) -> Any:
        if isinstance(part, CallPart):
            args = {"input": part.text} if part.text is not None else part.args or {}
            name = wire_tool_name(part.tool)
            return {"type": "tool_use", "id": wire_call_id(part.call_id), "name": name, "input": canonical(args)}
        if not is_sent(part, item, self._provider):
            return None
        if isinstance(part, Reasoning):
            if part.redacted:
                return {"type": "redacted_thinking", "data": part.opaque}
            return {"type": "thinking", "thinking": part.text, "signature": part.opaque}
        if isinstance(part, ServerTool):
            return canonical_value(part.content)
        if isinstance(part, ImagePart):
            return {"type": "text", "text": part.note or "(a picture was made here)"}
        return {"type": "text", "text": part.text}

    def add_result(self, item: ResultItem) -> None:
        parts = [part for block in item.content if (part := self._block(block)) is not None]
        error = b',"is_error":true' if item.is_error else b""
        if item.is_error and any(part["type"] != "text" for part in parts):
            # A result that is marked as an error may hold nothing but text; then the words must say it.
            error, parts = b"", [{"type": "text", "text": "Error:"}, *parts]
        blocks = [plain_json(part) for part in parts or [{"type": "text", "text": EMPTY}]]
        opening = plain_json({"type": "tool_result", "tool_use_id": wire_call_id(item.call_id)})[:-1]
        self._put("user", [opening + error + b',"content":[' + b",".join(blocks) + b"]}"])


class MessagesFormat:
    """Messages for one endpoint and model."""

    def __init__(self, endpoint: Endpoint, model: str, info: ModelInfo) -> None:
        self._endpoint = endpoint
        self._model = model
        self._info = info
        self._adaptive = matches(model, endpoint.quirks.adaptive_models)

    def path(self, *, stream: bool) -> str:
        return "/v1/messages"

    def history(self) -> MessagesHistory:
        return MessagesHistory(self._endpoint, self._info)

    def head(self, request: Request) -> bytes:
        check_names(request.tools)
        settings = request.settings
        check_extra(settings.extra, OWNED)
        thinking, output_config, max_tokens = self._thinking(request)
        if request.output is not None and self._info.native_output:
            output_config["format"] = {"type": "json_schema", "schema": request.output.json_schema}
        fields: dict[str, Any] = {"model": self._model, "max_tokens": max_tokens}
        fields.update(ordered_fields(settings.extra))
        fields.update(thinking)
        if output_config:
            fields["output_config"] = output_config
        if not self._thinks(request):
            fields.update({} if settings.temperature is None else {"temperature": settings.temperature})
            fields.update({} if settings.top_p is None else {"top_p": settings.top_p})
        if settings.stop:
            fields["stop_sequences"] = list(settings.stop)
        if request.stream:
            fields["stream"] = True
        fields.update(self._tool_fields(request))
        fields.update(self._system(request))
        return plain_json(fields)[:-1] + b',"messages":['

    def tail(self, history: History, request: Request) -> tuple[int, bytes]:
        assert isinstance(history, MessagesHistory)
        text = "" if self._paused(request) and not request.task_state else closing_text(request)
        mark = request.settings.cache and history.role == "user"
        out = CACHE + b"}" if mark else b""
        if text:
            block = plain_json({"type": "text", "text": text})
            if history.role == "user":
                out += b"," + block
            else:
                out += (b"]}," if history.role else b"") + b'{"role":"user","content":[' + block
        return (1 if mark else 0), out + b"]}]}"

    def _paused(self, request: Request) -> bool:
        """Whether the model's turn was paused while the provider ran a tool: it goes on when sent as it is."""
        last = request.items[-1] if request.items else None
        if not isinstance(last, AssistantItem) or not last.content:
            return False
        part = last.content[-1]
        return isinstance(part, ServerTool) and part.provider == self._endpoint.name

    def variant(self, request: Request) -> object:
        """Whether this very request thinks, which its history may forbid."""
        return self._thinks(request)

    def _thinks(self, request: Request) -> bool:
        """Whether thinking is asked for and possible: not with a forced call, and with a token budget not in the
        middle of tool calls that another provider, or a turn without thinking, has begun."""
        settings = request.settings
        if settings.thinking in (None, "off") and settings.thinking_budget_tokens is None:
            return False
        if settings.tool_choice not in ("auto", "none"):
            return False
        return self._adaptive or not begun_without_thought(request.items, self._endpoint.name)

    def _thinking(self, request: Request) -> tuple[dict[str, Any], dict[str, Any], int]:
        """The fields about thinking, the output configuration, and the output limit, which includes the thinking."""
        settings = request.settings
        limit = settings.max_output_tokens or self._info.max_output_tokens or OUTPUT_TOKENS
        if not self._thinks(request):
            off = settings.thinking == "off" and self._info.thinking
            return ({"thinking": {"type": "disabled"}} if off else {}), {}, limit
        if self._adaptive:
            effort = EFFORTS.get(settings.thinking or "")
            return {"thinking": {"type": "adaptive"}}, ({"effort": effort} if effort else {}), limit
        budget = settings.thinking_budget_tokens or THINKING_TOKENS[settings.thinking or "medium"]
        budget = max(budget, THINKING_TOKENS_MIN)
        if settings.max_output_tokens is None:
            limit = max(limit, budget + OUTPUT_TOKENS)
            if self._info.max_output_tokens is not None:
                limit = min(limit, self._info.max_output_tokens)
        if limit <= THINKING_TOKENS_MIN:
            return {}, {}, limit
        return {"thinking": {"type": "enabled", "budget_tokens": min(budget, limit - 1)}}, {}, limit

    def _by_tool(self, request: Request) -> bool:
        return request.output is not None and not self._info.native_output

    def _tool_fields(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        tools: list[dict[str, Any]] = [self._tool(declared) for declared in request.tools]
        tools += [
            {"type": tool.name, "name": tool.name, **ordered_fields(tool.config)} for tool in request.server_tools
        ]
        if request.output is not None and self._by_tool(request):
            schema = request.output.json_schema
            tools.append({"name": request.output.name, "description": OUTPUT_NOTE, "input_schema": schema})
        if not tools:
            return {}
        if settings.cache and not (request.instructions or request.knowledge):
            tools[-1] = {**tools[-1], **CACHE_FIELD}
        fields: dict[str, Any] = {"tools": tools}
        choice = self._choice(request)
        if choice:
            fields["tool_choice"] = choice
        return fields

    def _choice(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        named = tool_choice_name(settings)
        choice: dict[str, Any] = {"type": "auto"}
        if settings.tool_choice == "none":
            return {"type": "none"}
        if named is not None:
            choice = {"type": "tool", "name": named}
        elif settings.tool_choice == "required" or (self._by_tool(request) and not self._thinks(request)):
            choice = {"type": "any"}
        if settings.parallel_calls is not None:
            choice["disable_parallel_tool_use"] = not settings.parallel_calls
        return choice if len(choice) > 1 or choice["type"] != "auto" else {}

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        schema = text_parameters(tool) if tool.grammar is not None else object_schema(tool.parameters)
        declared: dict[str, Any] = {"name": tool.name}
        if tool.description:
            declared["description"] = tool.description
        declared["input_schema"] = canonical(schema)
        if tool.strict:
            declared["strict"] = True
        return declared

    def _system(self, request: Request) -> dict[str, Any]:
        texts = [text for text in (request.instructions, *request.knowledge) if text.strip()]
        if not texts:
            return {}
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
        if request.settings.cache:
            blocks[-1] = {**blocks[-1], **CACHE_FIELD}
        return {"system": blocks}

    def reader(self, request: Request) -> MessagesReader:
        text_tools = frozenset(tool.name for tool in request.tools if tool.grammar is not None)
        by_tool = request.output.name if request.output is not None and self._by_tool(request) else ""
        draft = Draft(self._endpoint.name, text_tools=text_tools, output_tool=by_tool)
        settings = request.settings
        asked = settings.thinking not in (None, "off") or settings.thinking_budget_tokens is not None
        if asked and not self._thinks(request):
            draft.warn("thinking is left out: a call is forced, or calls are under way that began without it")
        if self._thinks(request) and (settings.temperature is not None or settings.top_p is not None):
            draft.warn("temperature and top_p are left out while the model thinks")
        if settings.seed is not None:
            draft.warn("this format has no seed")
        return MessagesReader(draft)

    def prepared(self, request: Request) -> Request:
        return request

    def replied(self, request: Request, reply: Reply) -> None:
        """Nothing to remember."""

    def failed(self, request: Request, failure: Failure) -> None:
        """Nothing to forget."""


def begun_without_thought(items: list[HistoryItem], provider: str) -> bool:
    """Whether the model's last message calls tools and does not open with this provider's own thinking."""
    parts: list[tuple[AssistantPart, AssistantItem]] = []
    for item in reversed(items):
        if isinstance(item, AssistantItem):
            parts[:0] = [(part, item) for part in item.content if is_sent(part, item, provider)]
        elif parts:
            break
    thinks = bool(parts) and isinstance(parts[0][0], Reasoning)
    return not thinks and any(isinstance(part, CallPart) for part, _ in parts)


def is_sent(part: AssistantPart, item: AssistantItem, provider: str) -> bool:
    """Whether a part has a place in this provider's messages."""
    if isinstance(part, Reasoning):
        return part.opaque is not None and (part.provider or item.provider) == provider
    if isinstance(part, ServerTool):
        return part.provider == provider
    return bool(part.text.strip()) if isinstance(part, Text | Refusal) else True
