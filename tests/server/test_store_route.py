"""The store behind one route: each question needs its role, and nobody gets out of their tenant by it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from windlass.server.resources.store import role_of
from windlass.store.remote import questions
from windlass.store.remote.questions import QUESTIONS, AnyQuestion

from .support import Running, clerk, serving

BYTES = b64encode(b"bytes").decode()
DIGEST = "sha256:" + "ab" * 32
ROW = {"session": "march", "tenant": "other"}
LINE = {"data": BYTES, "prev_hash": ""}

BODIES: dict[str, dict[str, Any]] = {
    "about": {},
    "changes": {},
    "log.create": {"session": "april"},
    "log.append": {"session": "march", "line": LINE},
    "log.adopt": {"session": "april", "lines": [LINE]},
    "log.head": {"session": "march"},
    "log.read": {"session": "march"},
    "log.erase": {"session": "march", "seq": 2, "by": "me", "why": "because", "at_ms": 1},
    "log.forks": {"session": "march"},
    "log.detach": {"session": "march"},
    "log.delete": {"session": "march"},
    "log.put_snapshot": {
        "session": "march",
        "snapshot": {"seq": 1, "hash": "x", "state_version": 1, "data": BYTES},
    },
    "log.get_snapshot": {"session": "march"},
    "log.drop_snapshots": {"session": "march"},
    "inbox.send": {"session": "march", "command": {"command_id": "c", "at_ms": 1, "data": BYTES}},
    "inbox.deliver": {
        "session": "march",
        "command_id": "wake",
        "data": b64encode(b'{"type":"wake.received"}').decode(),
    },
    "inbox.waiting": {"session": "march"},
    "inbox.taken": {"session": "march"},
    "leases.claim": {"session": "march", "runner": "r", "ttl_ms": 1, "now_ms": 1},
    "leases.keep": {"session": "march", "runner": "r", "epoch": 1, "ttl_ms": 1, "now_ms": 1},
    "leases.release": {"session": "march", "runner": "r", "epoch": 1},
    "leases.holder": {"session": "march", "now_ms": 1},
    "index.put": {"row": ROW},
    "index.get": {"session": "march"},
    "index.find": {"query": {"tenant": "other"}},
    "blobs.put": {"data": BYTES},
    "blobs.get": {"digest": DIGEST},
    "blobs.info": {"digest": DIGEST},
    "blobs.erase": {"digest": DIGEST},
}
"""Something that each question may say."""


def asked(name: str) -> dict[str, Any]:
    return {"do": name, **BODIES[name]}


def test_every_question_is_tried_here():
    assert set(BODIES) == {kind.__struct_config__.tag for kind in QUESTIONS}


async def begun(running: Running) -> Any:
    admin = running.client()
    await admin.begin("march")
    await admin.prompt("march")
    await admin.asked("march")
    return await admin.records("march")


async def test_a_question_needs_its_role_and_writing_needs_all_of_them(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        before = await begun(running)
        reader, driver = running.client("read"), running.client("drive", "approve")
        for name in BODIES:
            question: AnyQuestion = msgspec.convert(asked(name), AnyQuestion)
            needed = "drive" if isinstance(question, questions.Deliver) else role_of(question)
            for client, may in ((reader, needed == "read"), (driver, needed != "admin")):
                if not may:
                    said = await client.ask("POST", "/v1/store", json=asked(name))
                    assert (said.status, said.json["code"]) == (403, "role"), name
                elif needed == "read":
                    said = await client.ask("POST", "/v1/store", json=asked(name))
                    assert said.status in (200, 404), (name, said)
        assert await running.client().records("march") == before


async def test_another_tenant_sees_and_changes_nothing_whatever_it_names(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        before = await begun(running)
        other = running.client("admin", tenant="other")
        row = await running.client().post("/v1/store", asked("index.get"))
        for name in BODIES:
            said = await other.ask("POST", "/v1/store", json=asked(name))
            assert said.status in (200, 400, 404, 409, 422), (name, said)
            assert b"invoice" not in said.body, name
            assert b"clerk" not in said.body, name
        assert await running.client().records("march") == before
        assert await running.client().post("/v1/store", asked("index.get")) == row


@pytest.mark.parametrize(
    "body",
    [
        {"do": "log.head"},
        {"do": "log.head", "session": "march", "tenant": "other"},
        {"do": "log.nothing", "session": "march"},
        {"session": "march"},
        {"do": "log.read", "session": "march", "after": "1"},
        {"do": "log.append", "session": "march", "line": {"data": "!", "prev_hash": ""}},
        {"do": "log.append", "session": "march", "line": LINE, "blobs": {DIGEST: BYTES}},
        {"do": "inbox.deliver", "session": "march", "command_id": "a:b", "data": BYTES},
        {"do": "inbox.deliver", "session": "march", "command_id": "a", "data": BYTES},
        {"do": "blobs.get", "digest": DIGEST, "start": -1},
        {"do": "blobs.get", "digest": DIGEST, "length": -1},
        [],
    ],
)
async def test_what_means_nothing_is_refused_and_said(tmp_path, body):
    async with serving(tmp_path, [clerk()]) as running:
        before = await begun(running)
        said = await running.client().ask("POST", "/v1/store", json=body)
        assert said.status in (400, 422), said
        assert said.json["detail"]
        assert await running.client().records("march") == before
