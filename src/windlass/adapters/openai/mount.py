"""The routes that the clients of OpenAI's ask: models, and responses."""

from __future__ import annotations

from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call, no_agent
from windlass.server.mount import Mount
from windlass.server.route import Route

from .chat_request import ChatRequest
from .chats import create_chat
from .problem_form import error_form
from .response_request import ResponseRequest
from .responses import create_response, get_response


async def list_models(call: Call) -> Answer:
    """The agents, as models."""
    return told({"object": "list", "data": [_model(name) for name in call.server.tenants.agents]})


async def get_model(call: Call) -> Answer:
    """One agent, as a model."""
    name = call.names["agent_name"]
    if name not in call.server.tenants.agents:
        raise no_agent(call, name)
    return told(_model(name))


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "windlass"}


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
        method="GET",
        path="/v1/models/{agent_name}",
        name="openaiGetModel",
        role="read",
        words="An agent, as a model of OpenAI's.",
        handler=get_model,
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
        method="POST",
        path="/v1/chat/completions",
        name="openaiCreateChat",
        role="drive",
        words="A chat completion of an agent, whole or as server-sent events. The history that is sent finds its "
        "session. Approvals and answers need the role `approve`.",
        handler=create_chat,
        takes=ChatRequest,
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
    names={
        "agent_name": {"type": "string", "minLength": 1, "maxLength": 200},
        "response_id": {"type": "string", "minLength": 1, "maxLength": 300},
    },
    schemas={"OpenaiObject": {"type": "object"}},
)
