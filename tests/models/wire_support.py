"""What the tests of the wire formats share: how to reach the model server in each format, and how to ask."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from windlass.events.values.blocks import CallSlot, GeneratedImage
from windlass.events.values.failures import Failure
from windlass.events.values.items import AssistantItem, CallPart, ImagePart, ToolSchema
from windlass.models.base import Delta, ModelInfo, Reply, Request
from windlass.models.catalogue.endpoints import ENDPOINTS, Credential, Endpoint
from windlass.models.transport.http_model import WireModel
from windlass.models.transport.timeouts import Timeouts
from windlass.testing.model_server import Format, ModelServer

FORMATS: tuple[Format, ...] = ("anthropic", "openai", "responses", "gemini")
ENDPOINT_OF: dict[Format, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "responses": "openai-responses",
    "gemini": "gemini",
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJcOkw7zDtsOfCg=="
ADD = ToolSchema(
    name="add",
    description="Adds two numbers.",
    parameters={
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    },
)

numbers = itertools.count(1)


def endpoint_for(server: ModelServer, form: Format, **changes: Any) -> Endpoint:
    return msgspec.structs.replace(ENDPOINTS[ENDPOINT_OF[form]], base_url=server.url(form), **changes)


def model_for(
    server: ModelServer,
    form: Format,
    *,
    model: str = "model-x",
    credential: Credential | None = None,
    timeouts: Timeouts | None = None,
    **info: Any,
) -> WireModel:
    """A model behind the server. Each has its own key, since a key shares its circuit breaker."""
    return offline_model(
        endpoint_for(server, form),
        model=model,
        credential=credential or f"sk-test-{next(numbers):08}",
        timeouts=timeouts or Timeouts(),
        **info,
    )


def offline_model(
    endpoint: Endpoint,
    *,
    model: str = "model-x",
    credential: Credential | None = "key",
    timeouts: Timeouts | None = None,
    **info: Any,
) -> WireModel:
    known = ModelInfo(name=f"{endpoint.name}/{model}", provider=endpoint.name, model=model, **info)
    return WireModel(endpoint, model, credential=credential, info=known, timeouts=timeouts or Timeouts())


async def asked(model: WireModel, request: Request) -> tuple[list[Delta], Reply | Failure]:
    """All deltas and the one end of a request."""
    deltas: list[Delta] = []
    ends: list[Reply | Failure] = []
    async for answer in model.stream(request):
        assert not ends, f"{answer!r} came after the end"
        if isinstance(answer, Reply | Failure):
            ends.append(answer)
        elif isinstance(answer, list):
            deltas += answer
        else:
            deltas.append(answer)
    assert len(ends) == 1
    return deltas, ends[0]


def as_item(reply: Reply, prefix: str) -> AssistantItem:
    """The reply as the history shows it to the model next time."""
    parts: list[Any] = []
    for block in reply.blocks:
        if isinstance(block, CallSlot):
            call = reply.calls[block.ordinal]
            parts.append(
                CallPart(
                    call_id=f"{prefix}:{block.ordinal}",
                    tool=call.tool,
                    args={} if call.malformed is not None else call.args,
                    text=call.text,
                    malformed=call.malformed,
                    provider_call_id=call.provider_call_id,
                    provider_data=call.provider_data,
                )
            )
        elif isinstance(block, GeneratedImage):
            parts.append(ImagePart(media_type=block.blob.media_type, note="(an image)"))
        else:
            parts.append(block)
    return AssistantItem(key=prefix, content=tuple(parts), provider=reply.provider, model=reply.model)
