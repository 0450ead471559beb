"""The OpenAPI document of a server with every adapter that `windlass serve --with` has."""

from __future__ import annotations

import json

import schemathesis
from schemathesis.core.result import Ok

from windlass.adapters.mounts import mount_names, mounts_named
from windlass.server.mount import joined
from windlass.server.resources.openapi import NAMED, openapi
from windlass.server.resources.route_list import ROUTES


def test_a_strangers_reader_takes_the_document_with_every_adapter_and_each_reference_leads_somewhere():
    mounts = tuple(mounts_named(mount_names()))
    routes = joined(ROUTES, mounts)
    document = openapi(mounts)
    found = [one.ok() for one in schemathesis.openapi.from_dict(document).get_all_operations() if isinstance(one, Ok)]
    assert sorted(one.definition.raw["operationId"] for one in found) == sorted(route.name for route in routes)
    named = {part.split('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]}
    assert named <= set(document["components"]["schemas"])
    for route in routes:
        described = document["paths"][route.path][route.method.lower()]
        in_path = {one["name"] for one in described["parameters"] if one["in"] == "path"}
        assert in_path == set(NAMED.findall(route.path))
