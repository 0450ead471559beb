"""OpenAI Responses: how requests are written. Answers are read in `reader`.

The provider keeps nothing unless the endpoint's `server_state` says so; even then the log stays the only truth, and
whatever the provider has forgotten is sent again.
"""

from __future__ import annotations

from collections import OrderedDict
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
    ServerTool,
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
from windlass.models.wires.encoded_history import HISTORIES_MAX, Blobs, History, plain_json, sorted_json
from windlass.models.wires.partial_reply import Draft
from windlass.models.wires.plain_blocks import (
    EMPTY,
    IMAGE_TYPES,
    OUTPUT_NOTE,
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
    system_text,
    text_parameters,
    wire_call_id,
    wire_tool_name,
)
from windlass.models.wires.wire_format import closing_text, tool_choice_name

from .reader import ResponsesReader

OWNED = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "reasoning",
        "include",
        "store",
        "previous_response_id",
        "conversation",
        "stream",
        "max_output_tokens",
        "temperature",
        "top_p",
        "prompt_cache_key",
    }
)


class Continued(Request, kw_only=True):
    """A request of which the provider already holds everything up to `previous_response_id`."""

    previous_response_id: str


class ResponsesHistory:
    """A flat list of items."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo) -> None:
        self.buffer = bytearray()
        self.items: list[HistoryItem] = []
        self.blobs: Blobs = {}
        self._provider = endpoint.name
        self._quirks = endpoint.quirks
        self._info = info
        self._custom: set[str] = set()

    def _append(self, item: Any) -> None:
        if self.buffer:
            self.buffer += b","
        self.buffer += plain_json(item)

    def add_user(self, item: UserItem) -> None:
        parts = [part for block in item.content if (part := self._part(block)) is not None]
        self._append(message("user", parts or [{"type": "input_text", "text": EMPTY}]))

    def _part(self, block: InputBlock | ResultBlock) -> dict[str, Any] | None:
        text = as_text(block)
        if text is not None:
            return {"type": "input_text", "text": text} if text else None
        if isinstance(block, Image | Audio | Document | Resource):
            data = inline_data(block, self.blobs)
            if data is not None:
                return self._media(block, data)
        return {"type": "input_text", "text": gone(block)}

    def _media(self, block: Image | Audio | Document | Resource, data: str) -> dict[str, Any]:
        media_type = block.media_type or "application/octet-stream"
        if media_type in IMAGE_TYPES and self._info.images:
            detail = block.detail if isinstance(block, Image) else "auto"
            return {"type": "input_image", "image_url": f"data:{media_type};base64,{data}", "detail": detail}
        if is_text_media(media_type):
            return {"type": "input_text", "text": decoded(data)}
        if media_type == "application/pdf":
            name = block.name if isinstance(block, Document) and block.name else "document.pdf"
            return {"type": "input_file", "filename": name, "file_data": f"data:{media_type};base64,{data}"}
        return {"type": "input_text", "text": gone(block, "cannot be shown to this model")}

    def add_assistant(self, item: AssistantItem) -> None:
        """Each part is an item. Reasoning is refused without the item that it led to, so it waits for one."""
        waiting: list[Any] = []
        for part in item.content:
            made = self._assistant_part(part, item)
            if made is None:
                continue
            if isinstance(part, Reasoning):
                waiting.append(made)
                continue
            for each in (*waiting, made):
                self._append(each)
            waiting.clear()

    def _assistant_part(self, part: AssistantPart, item: AssistantItem) -> Any:
        if isinstance(part, CallPart):
            return self._call(part)
        if isinstance(part, Reasoning):
            if part.opaque is None or (part.provider or item.provider) != self._provider:
                return None
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            named = {"id": part.reasoning_id} if part.reasoning_id else {}
            return {"type": "reasoning", **named, "summary": summary, "encrypted_content": part.opaque}
        if isinstance(part, ServerTool):
            return canonical_value(part.content) if part.provider == self._provider else None
        if isinstance(part, Refusal):
            return message("assistant", [{"type": "refusal", "refusal": part.text}]) if part.text else None
        text = (part.note or "(a picture was made here)") if isinstance(part, ImagePart) else part.text
        return message("assistant", [{"type": "output_text", "text": text, "annotations": []}]) if text else None

    def _call(self, part: CallPart) -> dict[str, Any]:
        call_id, name = wire_call_id(part.call_id), wire_tool_name(part.tool)
        if part.text is not None and self._quirks.custom_tools:
            self._custom.add(call_id)
            return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": part.text}
        args = {"input": part.text} if part.text is not None else part.args or {}
        return {"type": "function_call", "call_id": call_id, "name": name, "arguments": sorted_json(args).decode()}

    def add_result(self, item: ResultItem) -> None:
        parts = [part for block in item.content if (part := self._part(block)) is not None]
        if item.is_error:
            parts.insert(0, {"type": "input_text", "text": "Error:"})
        output: Any = parts
        if all(part["type"] == "input_text" for part in parts):
            output = "\n".join(part["text"] for part in parts) or EMPTY
        call_id = wire_call_id(item.call_id)
        kind = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
        self._append({"type": kind, "call_id": call_id, "output": output})


class ResponsesFormat:
    """Responses for one endpoint and model."""

    def __init__(self, endpoint: Endpoint, model: str, info: ModelInfo) -> None:
        self._endpoint = endpoint
        self._quirks = endpoint.quirks
        self._model = model
        self._info = info
        self._reasons = info.thinking or matches(model, endpoint.quirks.no_sampling_models)
        self._by_tool = not info.native_output
        self._held: OrderedDict[tuple[str, str], tuple[list[HistoryItem], str]] = OrderedDict()

    def path(self, *, stream: bool) -> str:
        return "/responses"

    def history(self) -> ResponsesHistory:
        return ResponsesHistory(self._endpoint, self._info)

    def variant(self, request: Request) -> object:
        return None

    def prepared(self, request: Request) -> Request:
        """With server state, the part of the request that the provider does not have yet."""
        held = self._held.get((request.session, request.lane)) if self._quirks.server_state else None
        if held is None:
            return request
        items, response_id = held
        count = len(items)
        if len(request.items) <= count or request.items[:count] != items:
            return request
        answer, rest = request.items[count], continued(request.items[count + 1 :])
        if not isinstance(answer, AssistantItem) or rest is None:
            return request
        if any(isinstance(part, CallPart) and part.text is not None for part in answer.content):
            return request
        fields = {name: getattr(request, name) for name in Request.__struct_fields__}
        return Continued(**{**fields, "items": rest, "session": ""}, previous_response_id=response_id)

    def head(self, request: Request) -> bytes:
        check_names(request.tools)
        settings = request.settings
        check_extra(settings.extra, OWNED)
        fields: dict[str, Any] = {"model": self._model, **ordered_fields({**self._quirks.body, **settings.extra})}
        if settings.max_output_tokens is not None:
            fields["max_output_tokens"] = settings.max_output_tokens
        if not matches(self._model, self._quirks.no_sampling_models):
            fields.update({} if settings.temperature is None else {"temperature": settings.temperature})
            fields.update({} if settings.top_p is None else {"top_p": settings.top_p})
        fields.update(self._thinking(request))
        fields.update(self._tool_fields(request))
        if request.output is not None and not self._by_tool:
            output = request.output
            kind = {"type": "json_schema", "name": output.name, "schema": output.json_schema, "strict": output.strict}
            fields["text"] = {"format": kind}
        if settings.cache and self._quirks.cache_key and request.session:
            fields["prompt_cache_key"] = wire_call_id(f"{request.session}.{request.lane}")
        fields["store"] = self._quirks.server_state
        if isinstance(request, Continued):
            fields["previous_response_id"] = request.previous_response_id
        if request.stream:
            fields["stream"] = True
        system = system_text(request.instructions, request.knowledge)
        if system:
            fields["instructions"] = system
        return plain_json(fields)[:-1] + b',"input":['

    def tail(self, history: History, request: Request) -> tuple[int, bytes]:
        text = closing_text(request)
        if not text:
            return 0, b"]}"
        last = plain_json(message("user", [{"type": "input_text", "text": text}]))
        return 0, (b"," if history.buffer else b"") + last + b"]}"

    def _thinking(self, request: Request) -> dict[str, Any]:
        level = request.settings.thinking
        fields: dict[str, Any] = {}
        if level is not None:
            off = self._quirks.thinking_off
            effort = level if level != "off" else off
            fields = {"reasoning": {"effort": effort, "summary": "auto"}} if effort else {}
        if (level is not None or self._reasons) and not self._quirks.server_state:
            fields["include"] = ["reasoning.encrypted_content"]
        return fields

    def _tool_fields(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        tools: list[Any] = [canonical(self._tool(tool)) for tool in request.tools]
        tools += [canonical({"type": tool.name, **tool.config}) for tool in request.server_tools]
        by_tool = request.output is not None and self._by_tool
        if request.output is not None and by_tool:
            about = {"name": request.output.name, "description": OUTPUT_NOTE, "strict": False}
            tools.append({"type": "function", **about, "parameters": request.output.json_schema})
        if not tools:
            return {}
        fields: dict[str, Any] = {"tools": tools}
        named = tool_choice_name(settings)
        if named is not None:
            custom = any(tool.name == named and tool.grammar is not None for tool in request.tools)
            kind = "custom" if custom and self._quirks.custom_tools else "function"
            fields["tool_choice"] = {"type": kind, "name": named}
        elif settings.tool_choice == "required" or (by_tool and settings.tool_choice == "auto"):
            fields["tool_choice"] = "required"
        elif settings.tool_choice == "none":
            fields["tool_choice"] = "none"
        if settings.parallel_calls is not None:
            fields["parallel_tool_calls"] = settings.parallel_calls
        return fields

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        about: dict[str, Any] = {"name": tool.name, "description": tool.description}
        if tool.grammar is not None and self._quirks.custom_tools:
            form = {"format": {"type": "grammar", **tool.grammar}} if tool.grammar else {}
            return {"type": "custom", **about, **form}
        parameters = text_parameters(tool) if tool.grammar is not None else object_schema(tool.parameters)
        # Left out, `strict` would mean true here, unlike in Chat Completions.
        return {"type": "function", **about, "parameters": parameters, "strict": tool.strict}

    def reader(self, request: Request) -> ResponsesReader:
        text_tools = frozenset(tool.name for tool in request.tools if tool.grammar is not None)
        by_tool = request.output.name if request.output is not None and self._by_tool else ""
        draft = Draft(self._endpoint.name, text_tools=text_tools, output_tool=by_tool)
        if request.settings.stop or request.settings.seed is not None:
            draft.warn("this format has neither stop sequences nor a seed")
        return ResponsesReader(draft)

    def replied(self, request: Request, reply: Reply) -> None:
        """With server state: the provider now holds this request and its answer."""
        ids = [call.provider_call_id for call in reply.calls]
        if not (self._quirks.server_state and request.session and reply.response_id):
            return
        if None in ids or len(set(ids)) != len(ids):
            self.failed(request, None)
            return
        self._held[(request.session, request.lane)] = (list(request.items), reply.response_id)
        self._held.move_to_end((request.session, request.lane))
        while len(self._held) > HISTORIES_MAX:
            self._held.popitem(last=False)

    def failed(self, request: Request, failure: Failure | None) -> None:
        """The provider may have forgotten; the next request says everything again."""
        self._held.pop((request.session, request.lane), None)


def message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def continued(items: list[HistoryItem]) -> list[HistoryItem] | None:
    """What follows an answer that the provider holds, its results under the provider's ids; none if that cannot be."""
    out: list[HistoryItem] = []
    for item in items:
        if isinstance(item, AssistantItem):
            return None
        if isinstance(item, ResultItem):
            if not item.provider_call_id:
                return None
            item = msgspec.structs.replace(item, call_id=item.provider_call_id)
        out.append(item)
    return out
