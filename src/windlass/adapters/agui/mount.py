"""The route that AG-UI clients ask."""

from __future__ import annotations

from windlass.server.mount import Mount
from windlass.server.route import Route

from .run_input import RunInput
from .runs import run_agent

ROUTES = (
    Route(
        method="POST",
        path="/v1/ag-ui/{agent_name}",
        name="aguiRunAgent",
        role="drive",
        words="A run of an agent in a thread, as AG-UI's events. Answers to interrupts need the role `approve`.",
        handler=run_agent,
        takes=RunInput,
        gives="AguiEvents",
        media="text/event-stream",
        fails=(409, 507),
        while_draining=False,
    ),
)

MOUNT = Mount(
    name="agui",
    routes=ROUTES,
    names={"agent_name": {"type": "string", "minLength": 1, "maxLength": 200}},
    schemas={"AguiEvents": {"type": "string", "description": "Server-sent events, each of AG-UI's."}},
)
