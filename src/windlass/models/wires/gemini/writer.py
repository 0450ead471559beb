"""Gemini generateContent: how requests are written. Answers are read in `gemini_reader`."""

from __future__ import annotations

from typing import Any

from windlass.events.errors import UsageError
from windlass.events.values.blocks import (
    Audio,
    Data,
    Document,
    Image,
    InputBlock,
    Reasoning,
    Resource,
    ResultBlock,
    ServerTool,
)
from windlass.events.values.failures import Failure
from windlass.events.values.items import (
    AssistantItem,
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

from .reader import GeminiReader

OWNED = frozenset({"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"})
OWNED_CONFIG = frozenset(
    {
        "maxOutputTokens",
        "temperature",
        "topP",
        "stopSequences",
        "seed",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "thinkingConfig",
        "candidateCount",
    }
)
THINKING_TOKENS = {"off": 0, "minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
LEVELS = {"off": "minimal", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high"}
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
UNSIGNED = "skip_thought_signature_validator"
"""What the vendor documents for calls that came from elsewhere and so carry no signature."""


class GeminiHistory:
    """Contents. The results of one batch share a content, which stays open until something else follows; pictures
    among them come in a content of their own unless the model takes them inside a result."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo, *, signs: bool) -> None:
        self.buffer = bytearray()
        self.items: list[HistoryItem] = []
        self.blobs: Blobs = {}
        self._provider = endpoint.name
        self._info = info
        self._signs = signs
        self.open = False
        self.pictures: list[dict[str, Any]] = []
        self._open_calls = 0

    def _append(self, role: str, parts: list[Any]) -> None:
        if self.open:
            self.buffer += b"]}"
            self.open = False
        if self.pictures:
            pictures, self.pictures = self.pictures, []
            self._append("user", pictures)
        if not self.buffer and role == "model":
            self._append("user", [{"text": START}])
        if self.buffer:
            self.buffer += b","
        self.buffer += plain_json({"role": role, "parts": parts})

    def add_user(self, item: UserItem) -> None:
        parts = [part for block in item.content if (part := self._part(block)) is not None]
        self._append("user", parts or [{"text": EMPTY}])

    def _part(self, block: InputBlock | ResultBlock) -> dict[str, Any] | None:
        text = as_text(block)
        if text is not None:
            return {"text": text} if text else None
        if isinstance(block, Image | Audio | Document | Resource):
            data = inline_data(block, self.blobs)
            if data is not None:
                return self._media(block, data)
        return {"text": gone(block)}

    def _media(self, block: Image | Audio | Document | Resource, data: str) -> dict[str, Any]:
        media_type = block.media_type or "application/octet-stream"
        if is_text_media(media_type):
            return {"text": decoded(data)}
        if not self._takes(media_type):
            return {"text": gone(block, "cannot be shown to this model")}
        return {"inlineData": {"mimeType": media_type, "data": data}}

    def _takes(self, media_type: str) -> bool:
        if media_type.startswith("image/"):
            return self._info.images and media_type in IMAGE_TYPES
        return media_type == "application/pdf" or media_type.startswith(("audio/", "video/"))

    def add_assistant(self, item: AssistantItem) -> None:
        parts: list[Any] = []
        calls = 0
        for part in item.content:
            if isinstance(part, CallPart):
                parts.append(self._call(part, item, first=not calls))
                calls += 1
            elif isinstance(part, Reasoning):
                self._thought(part, item, parts)
            elif isinstance(part, ServerTool):
                parts += [canonical_value(part.content)] if part.provider == self._provider else []
            elif isinstance(part, ImagePart):
                parts.append(self._made(part))
            elif part.text:
                parts.append({"text": part.text})
        if parts:
            self._append("model", parts)
        self._open_calls = calls

    def _made(self, part: ImagePart) -> dict[str, Any]:
        if part.data is not None and self._info.images:
            return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
        return {"text": part.note or "(a picture was made here)"}

    def _thought(self, part: Reasoning, item: AssistantItem, parts: list[Any]) -> None:
        """A signature goes back with the part that it came with: a thought, or the text before it."""
        if part.opaque is None or (part.provider or item.provider) != self._provider:
            return
        if part.text:
            parts.append({"text": part.text, "thought": True, "thoughtSignature": part.opaque})
        elif parts and isinstance(parts[-1], dict) and set(parts[-1]) == {"text"}:
            parts[-1]["thoughtSignature"] = part.opaque
        else:
            parts.append({"text": "", "thoughtSignature": part.opaque})

    def _call(self, part: CallPart, item: AssistantItem, *, first: bool) -> dict[str, Any]:
        args = {"input": part.text} if part.text is not None else part.args or {}
        name = wire_tool_name(part.tool)
        made: dict[str, Any] = {
            "functionCall": {"id": wire_call_id(part.call_id), "name": name, "args": canonical(args)}
        }
        own = item.provider == self._provider and part.provider_data
        signature = part.provider_data.get("thoughtSignature") if own and part.provider_data else None
        if signature is None and first and self._signs:
            signature = UNSIGNED
        if signature is not None:
            made["thoughtSignature"] = signature
        return made

    def add_result(self, item: ResultItem) -> None:
        texts: list[str] = []
        pictures: list[dict[str, Any]] = []
        for block in item.content:
            part = self._part(block)
            if part is not None and "text" in part:
                texts.append(part["text"])
            elif part is not None:
                pictures.append(part)
        value: Any = "\n".join(texts) or (EMPTY if not pictures else "(see the attached content)")
        if len(item.content) == 1 and isinstance(item.content[0], Data):
            value = canonical_value(item.content[0].value)
        name = wire_tool_name(item.tool)
        response: dict[str, Any] = {"id": wire_call_id(item.call_id), "name": name}
        response["response"] = {"error" if item.is_error else "output": value}
        if pictures and self._signs:
            response["parts"] = pictures
        elif pictures:
            self.pictures += [{"text": f"Result of {name}:"}, *pictures]
        self._put_result(plain_json({"functionResponse": response}))

    def _put_result(self, part: bytes) -> None:
        if self.open:
            self.buffer += b","
        else:
            self.buffer += (b"," if self.buffer else b"") + b'{"role":"user","parts":['
        self.buffer += part
        self.open = True
        self._open_calls -= 1
        if self._open_calls <= 0 and self.pictures:
            pictures, self.pictures = self.pictures, []
            self._append("user", pictures)

    def closing(self, text: str) -> bytes:
        """What follows the history; nothing of it is kept."""
        out = b"]}" if self.open else b""
        for parts in (self.pictures, [{"text": text}] if text else []):
            if parts:
                out += (b"," if self.buffer or out else b"") + plain_json({"role": "user", "parts": parts})
        return out


class GeminiFormat:
    """generateContent for one endpoint and model."""

    def __init__(self, endpoint: Endpoint, model: str, info: ModelInfo) -> None:
        self._endpoint = endpoint
        self._model = model.removeprefix("models/")
        self._info = info
        self._levels = matches(self._model, endpoint.quirks.level_models)

    def path(self, *, stream: bool) -> str:
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        version = "" if self._endpoint.base_url.endswith(("/v1beta", "/v1")) else "/v1beta"
        return f"{version}/models/{self._model}:{method}"

    def history(self) -> GeminiHistory:
        return GeminiHistory(self._endpoint, self._info, signs=self._levels)

    def head(self, request: Request) -> bytes:
        check_names(request.tools)
        extra = dict(request.settings.extra)
        own = extra.pop("generationConfig", {})
        if not isinstance(own, dict):
            raise UsageError("extra setting 'generationConfig' must be an object")
        check_extra(extra, OWNED)
        check_extra(own, OWNED_CONFIG)
        fields: dict[str, Any] = ordered_fields(extra)
        system = [{"text": text} for text in (request.instructions, *request.knowledge) if text]
        if system:
            fields["systemInstruction"] = {"parts": system}
        fields.update(self._tool_fields(request))
        config = {**ordered_fields(own), **self._config(request)}
        if config:
            fields["generationConfig"] = config
        opening = plain_json(fields)[:-1]
        return opening + (b"," if fields else b"") + b'"contents":['

    def tail(self, history: History, request: Request) -> tuple[int, bytes]:
        assert isinstance(history, GeminiHistory)
        return 0, history.closing(closing_text(request)) + b"]}"

    def _by_tool(self, request: Request) -> bool:
        """Only the newer models take a response schema together with tools."""
        if request.output is None:
            return False
        return not self._info.native_output or bool((request.tools or request.server_tools) and not self._levels)

    def _config(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        config: dict[str, Any] = {}
        if settings.max_output_tokens is not None:
            config["maxOutputTokens"] = settings.max_output_tokens
        if settings.temperature is not None:
            config["temperature"] = settings.temperature
        if settings.top_p is not None:
            config["topP"] = settings.top_p
        if settings.stop:
            config["stopSequences"] = list(settings.stop)
        if settings.seed is not None:
            config["seed"] = settings.seed
        if request.output is not None and not self._by_tool(request):
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = request.output.json_schema
        if settings.thinking is not None or settings.thinking_budget_tokens is not None:
            config["thinkingConfig"] = self._thinking(request)
        return config

    def _thinking(self, request: Request) -> dict[str, Any]:
        level, budget = request.settings.thinking, request.settings.thinking_budget_tokens
        shown = {"includeThoughts": level != "off"}
        if self._levels and level is not None:
            return {**shown, "thinkingLevel": LEVELS[level]}
        tokens = THINKING_TOKENS["off"] if level == "off" else budget
        return {**shown, "thinkingBudget": THINKING_TOKENS[level or "medium"] if tokens is None else tokens}

    def _tool_fields(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        declared: list[Any] = [self._tool(tool) for tool in request.tools]
        by_tool = self._by_tool(request)
        if request.output is not None and by_tool:
            about = {"name": request.output.name, "description": OUTPUT_NOTE}
            declared.append({**about, "parametersJsonSchema": request.output.json_schema})
        tools: list[Any] = [{"functionDeclarations": declared}] if declared else []
        tools += [{tool.name: canonical(tool.config)} for tool in request.server_tools]
        if not tools:
            return {}
        fields: dict[str, Any] = {"tools": tools}
        named = tool_choice_name(settings)
        calling: dict[str, Any] = {}
        if named is not None:
            calling = {"mode": "ANY", "allowedFunctionNames": [named]}
        elif settings.tool_choice == "required" or (by_tool and settings.tool_choice == "auto"):
            calling = {"mode": "ANY"}
        elif settings.tool_choice == "none":
            calling = {"mode": "NONE"}
        if calling and declared:
            fields["toolConfig"] = {"functionCallingConfig": calling}
        return fields

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        schema = text_parameters(tool) if tool.grammar is not None else object_schema(tool.parameters)
        return {
            "name": tool.name,
            "description": tool.description or tool.name,
            "parametersJsonSchema": canonical(schema),
        }

    def reader(self, request: Request) -> GeminiReader:
        text_tools = frozenset(tool.name for tool in request.tools if tool.grammar is not None)
        by_tool = request.output.name if request.output is not None and self._by_tool(request) else ""
        draft = Draft(self._endpoint.name, text_tools=text_tools, output_tool=by_tool)
        if request.settings.parallel_calls is False:
            draft.warn("this format cannot forbid parallel calls")
        return GeminiReader(draft)

    def variant(self, request: Request) -> object:
        return None

    def prepared(self, request: Request) -> Request:
        return request

    def replied(self, request: Request, reply: Reply) -> None:
        """Nothing to remember."""

    def failed(self, request: Request, failure: Failure) -> None:
        """Nothing to forget."""
