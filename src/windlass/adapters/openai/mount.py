"""The routes that the clients of OpenAI's ask: models, and responses."""

from __future__ import annotations

from windlass.server.answer import Answer, told
from windlass.server.call import Call
from windlass.server.mount import Mount
from windlass.server.route import Route

from .problem_form import error_form
from .response_request import ResponseRequest
from .responses import create_response, get_response


async def list_models(call: Call) -> Answer:
    """The agents, as models."""
    models = [
        {"id": name, "object": "model", "created": 0, "owned_by": "windlass"} for name in call.server.tenants.agents
    ]
    return told({"object": "list", "data": models})


ROUTES = (
    Route(
        method="GET",
        path="/v1/models",
        name="openaiListModels",
        role="read",
        words="The agents, as models of OpenAI's.",
        handler=list_models,
        gives="OpenaiObject",
        problem=error_form,
    ),
    Route(
        method="POST",
        path="/v1/responses",
        name="openaiCreateResponse",
        role="drive",
        words="A response of an agent, whole or as server-sent events. Approvals and answers need the role `approve`.",
        handler=create_response,
        takes=ResponseRequest,
        gives="OpenaiObject",
        fails=(404, 409, 507),
        while_draining=False,
        problem=error_form,
    ),
    Route(
        method="GET",
        path="/v1/responses/{response_id}",
        name="openaiGetResponse",
        role="read",
        words="A response as it is now.",
        handler=get_response,
        gives="OpenaiObject",
        problem=error_form,
    ),
)

MOUNT = Mount(
    name="openai",
    routes=ROUTES,
    names={"response_id": {"type": "string", "minLength": 1, "maxLength": 300}},
    schemas={"OpenaiObject": {"type": "object"}},
)
