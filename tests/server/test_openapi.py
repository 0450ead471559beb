"""The OpenAPI document: every route is in it, a stranger's reader takes it, and the server does what it says."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
import schemathesis.schemas
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from windlass.adapters.mounts import mount_names, mounts_named
from windlass.server.access.token_file import TokenFile
from windlass.server.mount import joined
from windlass.server.resources.openapi import NAMED, NAMES, openapi
from windlass.server.resources.route_list import ROUTES

ROOT = pathlib.Path(__file__).parent.parent.parent
EXAMPLES = 4
ENDLESS = {"followEvents", "aguiRunAgent"}
"""Operations whose answer is a stream; `test_stream.py` and the tests of their adapter try them."""
MOUNTS = tuple(mounts_named(mount_names()))
THERE = {"session_id": "march", "agent_name": "clerk"}
"""What paths may name, and is there."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a server in a process of its own, and a token for everything."""
    folder = tmp_path_factory.mktemp("served")
    tokens = TokenFile(folder / "tokens.json")
    tokens.ensure_first(tenant="default", now_ms=0)
    words = [sys.executable, "-m", "tests.server.kill_target", str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        word, pid, url = process.stdout.readline().split()
        assert word == "up"
        yield url, tokens.first_path.read_text().strip()
        subprocess.run(["kill", "-KILL", pid], check=True)
        process.stdin.close()


def test_every_route_is_described_and_nothing_else():
    document = openapi()
    described = {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert set(described) == {(route.method, route.path) for route in ROUTES}
    assert len({operation["operationId"] for operation in described.values()}) == len(ROUTES)
    for route in ROUTES:
        operation = described[route.method, route.path]
        assert operation["summary"]
        named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert named == set(NAMED.findall(route.path)) <= set(NAMES)
        assert {"401", "403", "429"} <= set(operation["responses"])
        assert ("requestBody" in operation) == (route.method == "POST")


def test_every_reference_leads_somewhere():
    document = openapi()
    there = set(document["components"]["schemas"])
    named = {part.split('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]}
    assert named <= there


@pytest.mark.parametrize("kind", ["does not fit", "fits and names what is there"])
def test_the_server_does_what_its_document_says(served: tuple[str, str], kind: str):
    url, token = served
    headers = {"Authorization": f"Bearer {token}"}
    mode = schemathesis.GenerationMode.NEGATIVE if kind == "does not fit" else schemathesis.GenerationMode.POSITIVE
    tried = []
    for found in schemathesis.openapi.from_dict(openapi(MOUNTS)).get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        name = operation.definition.raw["operationId"]
        tried.append(name)
        if name in ENDLESS or (mode is schemathesis.GenerationMode.NEGATIVE and not may_be_wrong(operation)):
            continue
        if kind == "fits and names what is there":
            begun = {"agent": "clerk", "session_id": "march"}
            requests.post(f"{url}/v1/sessions", json=begun, headers=headers, timeout=300).raise_for_status()

        @hypothesis.settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def agree(case: schemathesis.Case[Any]) -> None:
            if kind == "fits and names what is there":
                case.path_parameters.update({name: THERE[name] for name in case.path_parameters if name in THERE})
            case.call_and_validate(base_url=url, headers=headers, checks=CHECKS, timeout=300)

        agree()
    assert sorted(tried) == sorted(route.name for route in joined(ROUTES, MOUNTS))


def may_be_wrong(operation: schemathesis.schemas.APIOperation[Any, Any, Any, Any]) -> bool:
    """Whether there is anything about a request that could be wrong."""
    described = operation.definition.raw
    return bool(described["parameters"] or "requestBody" in described)
