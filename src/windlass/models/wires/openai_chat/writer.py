"""OpenAI Chat Completions, and everything that calls itself compatible with it: how requests are written.

What endpoints do differently is in their `Quirks`; nothing here asks for an endpoint by name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    Reasoning,
    Refusal,
    Resource,
    ResultBlock,
    Text,
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
from windlass.models.wires.encoded_history import Blobs, History, plain_json, sorted_json
from windlass.models.wires.partial_reply import Draft
from windlass.models.wires.plain_blocks import (
    EMPTY,
    IMAGE_TYPES,
    OUTPUT_NOTE,
    alnum9,
    as_text,
    canonical,
    check_extra,
    check_names,
    decoded,
    gone,
    inline_data,
    is_text_media,
    object_schema,
    ordered_fields,
    system_text,
    text_parameters,
    wire_call_id,
    wire_tool_name,
)
from windlass.models.wires.wire_format import closing_text, tool_choice_name

from .reader import ChatReader

OWNED = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "random_seed",
        "n",
        "functions",
        "function_call",
        "prompt_cache_key",
    }
)
THINKING_TOKENS = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
BRIDGE = b'{"role":"assistant","content":"(noted)"}'
AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class ChatHistory:
    """Messages one after the other. Pictures that tools gave back follow the last result of their batch in a message
    of their own, since a tool message can only hold text."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo, *, tools: bool) -> None:
        self.buffer = bytearray()
        self.items: list[HistoryItem] = []
        self.blobs: Blobs = {}
        self._tools = tools
        self._endpoint = endpoint
        self._quirks = endpoint.quirks
        self._info = info
        self._call_id = alnum9 if endpoint.quirks.call_ids == "alnum9" else wire_call_id
        self._open_calls = 0
        self._pictures: list[dict[str, Any]] = []
        self._after_tool = False

    def _write(self, message: bytes, *, role: str) -> None:
        if role != "tool":
            self._flush()
        if self._after_tool and role == "user" and self._quirks.assistant_after_tool:
            self._append(BRIDGE)
        self._append(message)
        self._after_tool = role == "tool"

    def _append(self, message: bytes) -> None:
        if self.buffer:
            self.buffer += b","
        self.buffer += message

    def _flush(self) -> None:
        """Writes the pictures that wait for the end of their batch."""
        if self._pictures:
            parts, self._pictures = self._pictures, []
            self._write(plain_json({"role": "user", "content": parts}), role="user")

    def closing(self, text: str) -> bytes:
        """What follows the history: pictures still waiting, then one last user message. Nothing of it is kept."""
        out = b""
        if self._pictures:
            out += b"," + (BRIDGE + b"," if self._quirks.assistant_after_tool else b"")
            out += plain_json({"role": "user", "content": self._pictures})
        if text:
            bridge = self._after_tool and not self._pictures and self._quirks.assistant_after_tool
            out += b"," if self.buffer else b""
            out += (BRIDGE + b",") if bridge else b""
            out += plain_json({"role": "user", "content": text})
        return out

    def add_user(self, item: UserItem) -> None:
        self._write(plain_json({"role": "user", "content": self._content(item.content)}), role="user")

    def _content(self, blocks: tuple[InputBlock, ...]) -> Any:
        if len(blocks) == 1 and type(blocks[0]) is Text:
            return blocks[0].text or EMPTY
        parts = [part for block in blocks if (part := self._part(block)) is not None]
        return parts or EMPTY

    def _part(self, block: InputBlock | ResultBlock) -> dict[str, Any] | None:
        text = as_text(block)
        if text is not None:
            return {"type": "text", "text": text} if text else None
        if isinstance(block, Image | Audio | Document | Resource):
            data = inline_data(block, self.blobs)
            if data is not None:
                return self._media(block, data)
        return {"type": "text", "text": gone(block)}

    def _media(self, block: Image | Audio | Document | Resource, data: str) -> dict[str, Any]:
        media_type = block.media_type or "application/octet-stream"
        if media_type in IMAGE_TYPES and self._info.images:
            url: dict[str, Any] = {"url": f"data:{media_type};base64,{data}"}
            if isinstance(block, Image) and block.detail != "auto":
                url["detail"] = block.detail
            return {"type": "image_url", "image_url": url}
        if is_text_media(media_type):
            return {"type": "text", "text": decoded(data)}
        if media_type in AUDIO_FORMATS and self._quirks.audio:
            return {"type": "input_audio", "input_audio": {"data": data, "format": AUDIO_FORMATS[media_type]}}
        if media_type == "application/pdf" and self._quirks.files:
            name = block.name if isinstance(block, Document) and block.name else "document.pdf"
            return {"type": "file", "file": {"filename": name, "file_data": f"data:{media_type};base64,{data}"}}
        return {"type": "text", "text": gone(block, "cannot be shown to this model")}

    def add_assistant(self, item: AssistantItem) -> None:
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        for part in item.content:
            if isinstance(part, Text | Refusal) and part.text:
                texts.append(part.text)
            elif isinstance(part, ImagePart):
                texts.append(part.note or "(a picture was made here)")
            elif isinstance(part, CallPart):
                calls.append(self._call(part))
        message: dict[str, Any] = {"role": "assistant"}
        message["content"] = "\n\n".join(texts) or None
        message.update(self._reasoning(item, bool(calls)))
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            return
        self._open_calls = len(calls)
        self._write(plain_json(message), role="assistant")

    def _call(self, part: CallPart) -> dict[str, Any]:
        name, call_id = wire_tool_name(part.tool), self._call_id(part.call_id)
        if part.text is not None and self._quirks.custom_tools:
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": part.text}}
        args = {"input": part.text} if part.text is not None else part.args or {}
        return {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": sorted_json(args).decode()},
        }

    def _reasoning(self, item: AssistantItem, calling: bool) -> dict[str, Any]:
        """The reasoning that goes back, where this endpoint wants it and it came from there."""
        when = self._quirks.reasoning_back
        if when == "never" or (when == "with_calls" and not (calling and self._tools)):
            return {}
        mine = [
            part
            for part in item.content
            if isinstance(part, Reasoning) and (part.provider or item.provider) == self._endpoint.name
        ]
        if self._quirks.reasoning_back_field == "reasoning_details":
            details = [entry for part in mine for entry in details_of(part.opaque)]
            return {"reasoning_details": details} if details else {}
        text = "".join(part.text for part in mine)
        return {"reasoning_content": text} if text or (calling and when == "with_calls") else {}

    def add_result(self, item: ResultItem) -> None:
        texts: list[str] = []
        for block in item.content:
            part = self._part(block)
            if part is not None and part["type"] == "text":
                texts.append(part["text"])
            elif part is not None:
                texts.append("(see the attached content below)")
                self._pictures += [{"type": "text", "text": f"Result of {wire_tool_name(item.tool)}:"}, part]
        text = "\n".join(texts) or EMPTY
        message = {
            "role": "tool",
            "tool_call_id": self._call_id(item.call_id),
            "content": f"Error: {text}" if item.is_error else text,
        }
        self._write(plain_json(message), role="tool")
        self._open_calls -= 1
        if self._open_calls <= 0:
            self._flush()


class ChatFormat:
    """Chat Completions for one endpoint and model."""

    def __init__(self, endpoint: Endpoint, model: str, info: ModelInfo) -> None:
        self._endpoint = endpoint
        self._quirks = endpoint.quirks
        self._model = model
        self._info = info
        self._tools = info.tools and not matches(model, endpoint.quirks.no_tools_models)
        native = endpoint.quirks.output if info.native_output else "tool"
        self._output = "json_object" if native == "tool" and not self._tools else native

    def path(self, *, stream: bool) -> str:
        return "/chat/completions"

    def history(self) -> ChatHistory:
        return ChatHistory(self._endpoint, self._info, tools=self._tools)

    def head(self, request: Request) -> bytes:
        check_names(request.tools)
        settings, quirks = request.settings, self._quirks
        check_extra(settings.extra, OWNED)
        fields: dict[str, Any] = {"model": self._model, **ordered_fields({**quirks.body, **settings.extra})}
        fields.update(self._limits(request))
        fields.update(self._thinking(request))
        fields.update(self._tool_fields(request))
        fields.update(self._output_fields(request))
        if quirks.server_tools == "field":
            fields.update({tool.name: canonical(tool.config) for tool in request.server_tools})
        if request.stream:
            fields["stream"] = True
            if quirks.stream_usage:
                fields["stream_options"] = {"include_usage": True}
        if settings.cache and quirks.cache_key and request.session:
            fields["prompt_cache_key"] = wire_call_id(f"{request.session}.{request.lane}")
        system = self._system(request)
        opening = plain_json({"role": "system", "content": system}) if system else b""
        return plain_json(fields)[:-1] + b',"messages":[' + opening + (b"," if opening else b"")

    def tail(self, history: History, request: Request) -> tuple[int, bytes]:
        assert isinstance(history, ChatHistory)
        return 0, history.closing(closing_text(request)) + b"]}"

    def _system(self, request: Request) -> str:
        text = system_text(request.instructions, request.knowledge)
        if request.output is not None and self._output == "json_object":
            schema = plain_json(request.output.json_schema).decode()
            text += f"\n\nAnswer with one JSON object, and nothing else, that satisfies this JSON Schema:\n{schema}"
        return text.strip("\n")

    def _limits(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        fields: dict[str, Any] = {}
        if settings.max_output_tokens is not None:
            fields[self._quirks.max_tokens_field] = settings.max_output_tokens
        if not matches(self._model, self._quirks.no_sampling_models):
            if settings.temperature is not None:
                fields["temperature"] = settings.temperature
            if settings.top_p is not None:
                fields["top_p"] = settings.top_p
        if settings.stop and self._quirks.stop:
            fields["stop"] = list(settings.stop)
        if settings.seed is not None:
            fields[self._quirks.seed_field] = settings.seed
        return fields

    def _thinking(self, request: Request) -> dict[str, Any]:
        level, budget, style = request.settings.thinking, request.settings.thinking_budget_tokens, self._quirks.thinking
        must_not = (self._quirks.thinks_streamed_only and not request.stream) or (
            self._quirks.thinks_unforced_only and self._forced(request)
        )
        if level is None and budget is None and not must_not:
            return {}
        on = level != "off" and not must_not
        if style == "effort":
            if not matches(self._model, self._quirks.effort_models):
                return {}
            effort = level or "medium"
            off = self._quirks.thinking_off
            return {"reasoning_effort": effort} if on else ({"reasoning_effort": off} if off else {})
        if style == "enable_thinking":
            tokens = budget or THINKING_TOKENS.get(level or "")
            return {"enable_thinking": on, **({"thinking_budget": tokens} if on and tokens else {})}
        if style == "thinking_type":
            return {"thinking": {"type": "enabled" if on else "disabled"}}
        if style == "reasoning":
            if not on:
                return {"reasoning": {"enabled": False}}
            return {"reasoning": {"max_tokens": budget} if budget else {"effort": level}}
        if style == "chat_template":
            return {"chat_template_kwargs": {"enable_thinking": on}}
        return {}

    def _forced(self, request: Request) -> bool:
        """Whether this request leaves the model no choice but to call a tool."""
        by_tool = request.output is not None and self._output == "tool"
        return request.settings.tool_choice not in ("auto", "none") or by_tool

    def _tool_fields(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        declared: list[Any] = [canonical(self._tool(tool)) for tool in request.tools]
        if self._quirks.server_tools == "tool":
            declared += [canonical({"type": tool.name, **tool.config}) for tool in request.server_tools]
        by_tool = request.output is not None and self._output == "tool"
        if by_tool and request.output is not None:
            about = {"name": request.output.name, "description": OUTPUT_NOTE}
            declared.append({"type": "function", "function": {**about, "parameters": request.output.json_schema}})
        if not declared or not self._tools:
            return {}
        fields: dict[str, Any] = {"tools": declared}
        named = tool_choice_name(settings)
        if named is not None:
            fields["tool_choice"] = {"type": "function", "function": {"name": named}}
        elif settings.tool_choice == "required" or (by_tool and settings.tool_choice == "auto"):
            fields["tool_choice"] = self._quirks.tool_choice_required
        elif settings.tool_choice == "none":
            fields["tool_choice"] = "none"
        if settings.parallel_calls is not None and self._quirks.parallel_calls:
            fields["parallel_tool_calls"] = settings.parallel_calls
        return fields

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        if tool.grammar is not None:
            if self._quirks.custom_tools:
                custom: dict[str, Any] = {"name": tool.name, "description": tool.description}
                if tool.grammar:
                    custom["format"] = {"type": "grammar", "grammar": tool.grammar}
                return {"type": "custom", "custom": custom}
            parameters = text_parameters(tool)
        else:
            parameters = object_schema(tool.parameters)
        function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": parameters}
        if tool.strict and self._quirks.strict_tools:
            function["strict"] = True
        return {"type": "function", "function": function}

    def _output_fields(self, request: Request) -> dict[str, Any]:
        output = request.output
        if output is None or self._output == "tool":
            return {}
        if self._output == "json_object":
            return {"response_format": {"type": "json_object"}}
        schema = {"name": output.name, "schema": output.json_schema, "strict": output.strict}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}

    def reader(self, request: Request) -> ChatReader:
        draft = self._draft(request)
        settings = request.settings
        if settings.stop and not self._quirks.stop:
            draft.warn("this endpoint takes no stop sequences")
        if request.tools and not self._tools:
            draft.warn("this model takes no tools; they are left out")
        sampled = settings.temperature is not None or settings.top_p is not None
        if sampled and matches(self._model, self._quirks.no_sampling_models):
            draft.warn("this model takes neither temperature nor top_p")
        return ChatReader(draft)

    def _draft(self, request: Request) -> Draft:
        text_tools = frozenset(tool.name for tool in request.tools if tool.grammar is not None)
        by_tool = request.output.name if request.output is not None and self._output == "tool" else ""
        return Draft(self._endpoint.name, text_tools=text_tools, output_tool=by_tool)

    def variant(self, request: Request) -> object:
        return None

    def prepared(self, request: Request) -> Request:
        return request

    def replied(self, request: Request, reply: Reply) -> None:
        """Nothing to remember."""

    def failed(self, request: Request, failure: Failure) -> None:
        """Nothing to forget."""


def details_of(opaque: str | None) -> list[msgspec.Raw]:
    """The entries of reasoning that must go back as a list; what is no such list came from elsewhere."""
    try:
        return msgspec.json.decode(opaque or "[]", type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return []
