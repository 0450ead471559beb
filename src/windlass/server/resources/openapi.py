"""The OpenAPI document, made from the list of routes and from the types that they take and give."""

from __future__ import annotations

import functools
import re
from importlib.metadata import version
from types import UnionType
from typing import Any, get_args

import msgspec

from windlass.protocol.wire_schema import PLACE, components
from windlass.server.mount import Mount, joined
from windlass.server.problems import ProblemBody
from windlass.server.route import Route
from windlass.store.remote.questions import QUESTIONS

from .route_list import ROUTES

Schema = dict[str, Any]
NAMED = re.compile(r"\{(\w+)\}")
EVERY = (400, 401, 403, 421, 429, 500, 503)
"""Statuses that any route may answer with."""

NAMES: dict[str, Schema] = {
    "session_id": {"type": "string", "minLength": 1, "maxLength": 200},
    "other_id": {"type": "string", "minLength": 1, "maxLength": 200},
    "request_id": {"type": "string", "minLength": 1, "maxLength": 200},
    "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
}
"""What a path may name."""

OWN: dict[str, Schema] = {
    "Text": {"type": "string"},
    "Bytes": {"type": "string", "format": "binary"},
    "Document": {"type": "object"},
    "StoreQuestion": {
        "description": "A method of the store and what it is given.",
        "anyOf": [{"$ref": f"{PLACE}api.{kind.__name__}"} for kind in QUESTIONS],
        "discriminator": {
            "propertyName": "do",
            "mapping": {str(kind.__struct_config__.tag): f"{PLACE}api.{kind.__name__}" for kind in QUESTIONS},
        },
    },
    "EventStream": {"type": "string", "description": "Server-sent events: `record`, `live`, `requests` and `slash`."},
    "RecordPage": {
        "description": "Records of a log, the cursor behind the last, and whether there are more now.",
        "type": "object",
        "properties": {
            "records": {"type": "array", "items": {"$ref": f"{PLACE}Record"}},
            "cursor": {"type": "string"},
            "more": {"type": "boolean"},
        },
        "required": ["records", "cursor", "more"],
    },
}
"""Schemas that no type of ours has."""

PROBLEM_WORDS = {
    400: "Something in the request means nothing here.",
    401: "There is no token, or none that is known.",
    403: "The token has not the role, or the origin is not allowed.",
    404: "There is no such thing, or it is another tenant's.",
    408: "The body took too long.",
    409: "It does not fit now: the detail says what came first.",
    413: "The body is too large.",
    415: "The body is of another type.",
    421: "The host is none of this server's names.",
    422: "The body is not what it should be; `path` says where.",
    429: "Too many at once.",
    500: "The server failed.",
    503: "The server is being stopped, or the store does not answer.",
    507: "The store has no room.",
}


@functools.cache
def openapi(mounts: tuple[Mount, ...] = ()) -> Schema:
    """The document of a server with these mounts."""
    routes = joined(ROUTES, mounts)
    names, own = dict(NAMES), dict(OWN)
    for mount in mounts:
        names |= mount.names
        own |= mount.schemas
    kinds = [kind for route in routes for kind in (route.takes, route.gives)]
    types = [one for kind in kinds for one in get_args(kind) or (kind,) if isinstance(one, type)]
    _, made = msgspec.json.schema_components(
        [*dict.fromkeys(types), *QUESTIONS, ProblemBody], ref_template=PLACE + "api.{name}"
    )
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": version("windlass"),
            "description": "Durable sessions of agents: commands in, an append-only log out.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**components(), **own, **{f"api.{name}": schema for name, schema in made.items()}},
        },
    }


@functools.cache
def openapi_bytes(mounts: tuple[Mount, ...] = ()) -> bytes:
    """The same, as JSON."""
    return msgspec.json.encode(openapi(mounts))


def _operation(route: Route, names: dict[str, Schema]) -> Schema:
    named = [
        {"name": name, "in": "path", "required": True, "schema": names[name]} for name in NAMED.findall(route.path)
    ]
    asked = [
        {"name": one.name, "in": one.place, "required": False, "description": one.words, "schema": one.schema}
        for one in route.parameters
    ]
    operation: Schema = {
        "operationId": route.name,
        "summary": route.words,
        "description": f"Needs a token with the role `{route.role}`.",
        "parameters": [*named, *asked],
        "responses": _responses(route),
    }
    if route.signed:
        operation |= {"security": [], "description": "Needs a signature, and no token."}
    if route.takes is not None:
        content = {"application/json": {"schema": _ref(route.takes)}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.takes_bytes:
        media = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": media}
    return operation


def _responses(route: Route) -> Schema:
    well: Schema = {"description": "It went well."}
    if route.gives is not None:
        well["content"] = {route.media.partition(";")[0]: {"schema": _ref(route.gives)}}
    problem: Schema = {"application/problem+json": {"schema": {"$ref": f"{PLACE}api.ProblemBody"}}}
    if route.problem is not None:
        problem = {"application/json": {"schema": {"type": "object"}}}
    failures = {*EVERY, *route.fails}
    if "{" in route.path:
        failures.add(404)
    if route.takes is not None:
        failures |= {408, 413, 415, 422}
    if route.takes_bytes:
        failures |= {408, 413, 415}
    return {str(status): well for status in (route.status, *route.also)} | {
        str(status): {"description": PROBLEM_WORDS[status], "content": problem} for status in sorted(failures)
    }


def _ref(kind: Any) -> Schema:
    if isinstance(kind, UnionType):
        return {"anyOf": [_ref(one) for one in get_args(kind)]}
    return {"$ref": f"{PLACE}{kind}" if isinstance(kind, str) else f"{PLACE}api.{kind.__name__}"}
