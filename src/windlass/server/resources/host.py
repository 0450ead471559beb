"""The server itself: whether it lives, whether it is ready, its figures, its agents and its documents."""

from __future__ import annotations

import functools
from importlib.metadata import version

import msgspec

from windlass.protocol.wire_schema import document
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call
from windlass.server.metrics import MEDIA
from windlass.server.problems import Problem
from windlass.server.route import Route
from windlass.store.base import Query, store_stats


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """That the server answers, and which one it is."""

    status: str
    version: str


class ServedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose sessions can be begun here."""

    name: str
    tools: list[str]


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that are served."""

    agents: list[ServedAgent]


async def health(call: Call) -> Answer:
    """That it lives."""
    return told(Health(status="ok", version=version("windlass")))


async def ready(call: Call) -> Answer:
    """Whether work may be sent here: the store answers, and nobody has asked the server to stop."""
    if call.server.draining:
        raise Problem(503, "draining", "the server is being stopped: ask another one")
    await (await call.store()).index.find(Query(tenant=call.token.tenant, limit=1))
    return told(Health(status="ready", version=version("windlass")))


async def metrics(call: Call) -> Answer:
    """Figures for Prometheus."""
    server = call.server
    runtimes = server.tenants.runtimes
    gauges = {
        "windlass_streams_open": ("Event streams that are open.", float(sum(server.streams.values()))),
        "windlass_sessions_driven": (
            "Sessions that this process drives.",
            float(sum(len(tuple(runtime.slots.driven)) for runtime in runtimes)),
        ),
        "windlass_sessions_parked": (
            "Sessions that nothing here can resume.",
            float(sum(len(runtime.parked) for runtime in runtimes)),
        ),
        "windlass_draining": ("Whether the server is being stopped.", float(server.draining)),
    }
    for name, value in sorted(store_stats(await call.store()).items()):
        if isinstance(value, int | float) and name.isidentifier():
            gauges[f"windlass_store_{name}"] = ("What the store counts of itself.", float(value))
    return Answer(body=server.metrics.text(gauges).encode(), media=MEDIA)


async def list_agents(call: Call) -> Answer:
    """The agents that are served here."""
    agents = call.server.tenants.agents.values()
    return told(
        AgentList(agents=[ServedAgent(name=one.name, tools=[str(tool.name) for tool in one.toolset]) for one in agents])
    )


@functools.cache
def _schema() -> bytes:
    return msgspec.json.encode(document())


async def get_schema(call: Call) -> Answer:
    """The JSON Schema of commands and events."""
    return Answer(body=_schema(), media="application/schema+json")


async def get_openapi(call: Call) -> Answer:
    """The OpenAPI document of all routes."""
    from .openapi import openapi_bytes

    return Answer(body=openapi_bytes(call.server.mounts))


ROUTES = (
    Route(
        method="GET",
        path="/v1/health",
        name="getHealth",
        role="read",
        words="That the server answers.",
        handler=health,
        gives=Health,
    ),
    Route(
        method="GET",
        path="/v1/ready",
        name="getReady",
        role="read",
        words="Whether work may be sent here.",
        handler=ready,
        gives=Health,
    ),
    Route(
        method="GET",
        path="/v1/metrics",
        name="getMetrics",
        role="read",
        words="Figures for Prometheus.",
        handler=metrics,
        gives="Text",
        media=MEDIA,
    ),
    Route(
        method="GET",
        path="/v1/agents",
        name="listAgents",
        role="read",
        words="The agents whose sessions can be begun here.",
        handler=list_agents,
        gives=AgentList,
    ),
    Route(
        method="GET",
        path="/v1/schema",
        name="getSchema",
        role="read",
        words="The JSON Schema of commands and events.",
        handler=get_schema,
        gives="Document",
        media="application/schema+json",
    ),
    Route(
        method="GET",
        path="/v1/openapi.json",
        name="getOpenapi",
        role="read",
        words="This document.",
        handler=get_openapi,
        gives="Document",
    ),
)
