"""OpenAI Chat Completions, and everything that calls itself compatible with it.

What endpoints do differently is in their `Quirks`; nothing here asks for an endpoint by name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.blocks import Audio, Document, Image, InputBlock, Reasoning, Refusal, Resource, ResultBlock, Text
from windlass.events.errors import UsageError
from windlass.events.failures import Failure, FinishReason
from windlass.events.items import AssistantItem, CallPart, ImagePart, ResultItem, ToolSchema, UserItem
from windlass.events.usage import Usage

from .base import CallPartDelta, Delta, ModelInfo, ReasoningPart, RefusalPart, Reply, Request, TextPart
from .draft import CallDraft, Draft
from .endpoints import Endpoint, matches
from .history import History, plain_json, sorted_json
from .render import (
    EMPTY,
    alnum9,
    as_text,
    check_names,
    decoded,
    gone,
    inline_data,
    is_text_media,
    object_schema,
    system_text,
    text_parameters,
    wire_call_id,
    wire_tool_name,
)
from .wire import closing_text, tool_choice_name

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
FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "error": "error",
    "eos": "stop",
}
THINKING_TOKENS = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
BRIDGE = b'{"role":"assistant","content":"(noted)"}'
AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class ChatHistory(History):
    """Messages one after the other. Pictures that tools gave back follow the last result of their batch in a message
    of their own, since a tool message can only hold text."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo) -> None:
        super().__init__()
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
        if media_type.startswith("image/") and self._info.images:
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
        refusals: list[str] = []
        for part in item.content:
            if isinstance(part, Text) and part.text:
                texts.append(part.text)
            elif isinstance(part, ImagePart):
                texts.append(part.note or "(a picture was made here)")
            elif isinstance(part, Refusal):
                refusals.append(part.text)
            elif isinstance(part, CallPart):
                calls.append(self._call(part))
        message: dict[str, Any] = {"role": "assistant"}
        message["content"] = "\n\n".join(texts + refusals) or None
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
        if when == "never" or (when == "with_calls" and not calling):
            return {}
        mine = [
            part
            for part in item.content
            if isinstance(part, Reasoning) and (part.provider or item.provider) == self._endpoint.name
        ]
        if self._quirks.reasoning_back_field == "reasoning_details":
            details = [msgspec.Raw(part.opaque.encode()) for part in mine if part.opaque]
            return {"reasoning_details": details[0]} if details else {}
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
        return ChatHistory(self._endpoint, self._info)

    def head(self, request: Request) -> bytes:
        check_names(request.tools)
        settings, quirks = request.settings, self._quirks
        taken = sorted(OWNED & set(settings.extra))
        if taken:
            raise UsageError(f"extra settings {taken!r} are set by windlass itself: use the named settings instead")
        fields: dict[str, Any] = {"model": self._model, **dict(sorted(quirks.body.items()))}
        fields.update(sorted(settings.extra.items()))
        fields.update(self._limits(request))
        fields.update(self._thinking(request))
        fields.update(self._tool_fields(request))
        fields.update(self._output_fields(request))
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
        if settings.stop:
            fields["stop"] = list(settings.stop)
        if settings.seed is not None:
            fields[self._quirks.seed_field] = settings.seed
        return fields

    def _thinking(self, request: Request) -> dict[str, Any]:
        level, budget, style = request.settings.thinking, request.settings.thinking_budget_tokens, self._quirks.thinking
        if level is None and budget is None:
            return {}
        on = level != "off"
        if style == "effort":
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

    def _tool_fields(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        declared = [self._tool(tool) for tool in request.tools]
        declared += [{"type": tool.name, **tool.config} for tool in request.server_tools]
        by_tool = request.output is not None and self._output == "tool"
        if by_tool and request.output is not None:
            note = "Gives the final answer. Call it once, when the answer is complete."
            function = {"name": request.output.name, "description": note, "parameters": request.output.json_schema}
            declared.append({"type": "function", "function": function})
        if not declared or not self._tools:
            return {}
        fields: dict[str, Any] = {"tools": msgspec.Raw(b"[" + b",".join(tool_json(tool) for tool in declared) + b"]")}
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
        text_tools = frozenset(tool.name for tool in request.tools if tool.grammar is not None)
        by_tool = request.output.name if request.output is not None and self._output == "tool" else ""
        return ChatReader(Draft(self._endpoint.name, text_tools=text_tools, output_tool=by_tool))

    def replied(self, request: Request, reply: Reply) -> None:
        """Nothing to remember."""

    def failed(self, request: Request, failure: Failure) -> None:
        """Nothing to forget."""


def tool_json(tool: dict[str, Any]) -> bytes:
    return sorted_json(tool)


class Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class Custom(msgspec.Struct):
    name: str | None = None
    input: str | None = None


class ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None


class ImageUrl(msgspec.Struct, frozen=True):
    url: str = ""


class MadeImage(msgspec.Struct):
    image_url: ImageUrl = ImageUrl()


class Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[ToolCall] | None = None
    images: list[MadeImage] | None = None


class Choice(msgspec.Struct):
    index: int = 0
    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class Chunk(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Counts | None = None
    error: Any = None


decode_chunk = msgspec.json.Decoder(Chunk).decode


class ChatReader:
    """Reads the chunks of a streamed completion, or a whole one."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.ended = False
        self.error: Any = None
        self.moved = False
        self._calls: dict[int | str, CallDraft] = {}
        self._details: list[dict[str, Any]] = []
        self._named = False

    def feed(self, events: list[bytes]) -> list[Delta]:
        out: list[Delta] = []
        for data in events:
            if data[:6] == b"[DONE]":
                self._end()
                break
            chunk = decode_chunk(data)
            if not self._named or chunk.error is not None or chunk.usage is not None:
                self._about(chunk)
                if self.error is not None:
                    break
            if chunk.choices:
                choice = chunk.choices[0]
                if choice.delta is not None:
                    self._message(choice.delta, out)
                if choice.finish_reason is not None:
                    self._finish(choice.finish_reason)
        return out

    def whole(self, body: bytes) -> None:
        completion = decode_chunk(body)
        self._about(completion)
        if self.error is not None or not completion.choices:
            return
        choice = completion.choices[0]
        if choice.message is not None:
            for index, call in enumerate(choice.message.tool_calls or ()):
                call.index = index
            self._message(choice.message, [])
        if choice.finish_reason is not None:
            self._finish(choice.finish_reason)
            self._end()

    def _end(self) -> None:
        """The end marker alone is not enough: without a finish reason nothing says that the answer is whole."""
        if self._details:
            self.draft.span("reasoning").opaque = plain_json(self._details).decode()
            self._details = []
        self.ended = self.draft.finish is not None

    def _about(self, chunk: Chunk) -> None:
        draft = self.draft
        self.error = chunk.error
        if chunk.id:
            draft.response_id = chunk.id
        if chunk.model:
            draft.model = chunk.model
        self._named = bool(draft.response_id and draft.model)
        if chunk.usage is not None and chunk.usage.prompt_tokens is not None:
            draft.usage = usage_of(chunk.usage)

    def _message(self, message: Message, out: list[Delta]) -> None:
        text = message.content
        if text:
            self.draft.span("text").parts.append(text)
            out.append(TextPart(text=text))
        thought = message.reasoning_content or message.reasoning
        if thought:
            self.draft.span("reasoning").parts.append(thought)
            out.append(ReasoningPart(text=thought))
        if message.reasoning_details:
            self._add_details(message.reasoning_details, thought is None, out)
        if message.refusal:
            self.draft.span("refusal").parts.append(message.refusal)
            out.append(RefusalPart(text=message.refusal))
        if message.tool_calls:
            for call in message.tool_calls:
                self._call(call, out)
        for image in message.images or ():
            media, _, data = image.image_url.url.partition(";base64,")
            self.draft.image(data, media.removeprefix("data:"))
            self.moved = True

    def _add_details(self, details: list[dict[str, Any]], show: bool, out: list[Delta]) -> None:
        """Reasoning in pieces that must go back as one list: pieces of one index are one entry."""
        for detail in details:
            last = self._details[-1] if self._details else None
            same = last is not None and all(last.get(key) == detail.get(key) for key in ("type", "index"))
            for field in ("text", "summary", "data"):
                piece = detail.get(field)
                if same and last is not None and isinstance(piece, str):
                    last[field] = str(last.get(field) or "") + piece
            if same and last is not None:
                last.update({key: value for key, value in detail.items() if key in ("signature", "id") and value})
            else:
                self._details.append(dict(detail))
            text = detail.get("text") or detail.get("summary")
            span = self.draft.span("reasoning")
            if show and isinstance(text, str) and text:
                span.parts.append(text)
                out.append(ReasoningPart(text=text))

    def _call(self, call: ToolCall, out: list[Delta]) -> None:
        """A piece of a call. Pieces belong together by index; where an endpoint sends none, a new id begins a call."""
        key: int | str = call.index if call.index is not None else call.id or len(self._calls) - 1
        draft = self._calls.get(key)
        if draft is not None and call.id and draft.call_id and call.id != draft.call_id:
            draft = None  # the same index with another id is another call
        if draft is None:
            draft = self._calls[key] = self.draft.new_call()
            draft.custom = call.type == "custom" or call.custom is not None
        if call.id:
            draft.call_id = call.id
        name = (call.function.name if call.function else None) or (call.custom.name if call.custom else None)
        fragment = (call.function.arguments if call.function else None) or (call.custom.input if call.custom else None)
        if name and not draft.tool:
            draft.tool = name
        if fragment:
            draft.add(fragment)
        out.append(CallPartDelta(ordinal=draft.ordinal, tool=name or None, fragment=fragment or ""))

    def _finish(self, reason: str) -> None:
        known = FINISHES.get(reason)
        if known is None:
            self.draft.warn(f"unknown finish reason {reason!r}")
        self.draft.finish = known or "other"
        if self.draft.finish == "stop" and any(getattr(e, "kind", "") == "refusal" for e in self.draft.entries):
            self.draft.finish = "refusal"


def usage_of(counts: Counts) -> Usage:
    prompt, output = counts.prompt_tokens_details, counts.completion_tokens_details
    cached = (prompt.cached_tokens if prompt else None) or counts.prompt_cache_hit_tokens or 0
    return Usage(
        input_tokens=counts.prompt_tokens or 0,
        output_tokens=counts.completion_tokens or 0,
        cache_read_tokens=cached,
        cache_write_tokens=(prompt.cache_write_tokens if prompt else None) or 0,
        reasoning_tokens=(output.reasoning_tokens if output else None) or 0,
    )
