"""Commands, records and live events on the wire: what is read, what is refused and how, and the schema of both."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.protocol.test_view import live_session
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.live import LIVE_EVENTS, Live
from windlass.events.stored.registry import COMMANDS, EVENTS
from windlass.events.values.blocks import Text
from windlass.protocol.wire_commands import SAID_BY_HOST, WIRE_COMMANDS, WireError, client_fields, read_command
from windlass.protocol.wire_events import live_bytes, record_bytes
from windlass.protocol.wire_schema import components, document
from windlass.runtime.streams.record import Record

NOT_FOR_CLIENTS = {"SessionStarted", "ChildMoved", "ChildFinished", "ChildSettled", "GrantReceived"}
"""Commands that only sessions and hosts send."""


def read(command: dict[str, Any] | bytes) -> Any:
    data = command if isinstance(command, bytes) else json.dumps(command).encode()
    return read_command(data, command_id="k1", actor="ada", auth="token")


def validator(name: str) -> jsonschema_rs.Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": components()}}
    return jsonschema_rs.validator_for(schema)


def test_a_command_is_read_with_its_id_and_with_who_gave_it():
    said = {"type": "prompt.received", "behavior": "steer", "body": {"content": [{"type": "text", "text": "hi"}]}}
    body = PromptBody(content=(Text(text="hi"),))
    expected = PromptReceived(command_id="k1", actor="ada", auth="token", behavior="steer", body=body)
    assert read(said) == expected
    assert read(said | {"command_id": "k1"}) == expected


@pytest.mark.parametrize(
    ("command", "path", "advice"),
    [
        ({"type": "prompt.recieved"}, "$.type", "did you mean 'prompt.received'?"),
        ({"type": "child.finished"}, "$.type", "no command that clients send"),
        ({"type": 7}, "$.type", "no command"),
        ({}, "$.type", "no command"),
        ({"type": "wake.received", "actor": "root"}, "$.actor", "leave it out"),
        ({"type": "wake.received", "auth": "os_user"}, "$.auth", "leave it out"),
        ({"type": "wake.received", "command_id": "k2"}, "$.command_id", "Idempotency-Key 'k1'"),
        ({"type": "wake.received", "wen": 1}, "$.wen", "no such field"),
        ({"type": "prompt.received", "hooks": []}, "$.hooks", "leave it out"),
        ({"type": "prompt.received", "boddy": {}}, "$.boddy", "did you mean 'body'?"),
        ({"type": "prompt.received", "body": {"content": "hi"}}, "$.body.content", "expected array, got string"),
        (
            {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "a", "txt": 1}]}},
            "$.body.content[0].txt",
            "did you mean 'text'?",
        ),
        (
            {
                "type": "prompt.received",
                "body": {"content": [], "attachments": [{"type": "file", "path": "/etc/passwd"}]},
            },
            "$.body.attachments",
            "send the content as blocks",
        ),
        ({"type": "call.received", "tool": "pay", "body": {"args": {}, "prepared": {}}}, "$.body.prepared", "leave it"),
        ({"type": "call.received", "tool": "pay", "body": {"args": [1]}}, "$.body.args", "must be a JSON object"),
        ({"type": "change.received", "change": {"what": "title", "titel": "x"}}, "$.change.titel", "'title'"),
        (b'{"type":"wake.received","type":"wake.received"}', "$", "same key twice"),
        (b"[]", "$", "one JSON object"),
        (b"{", "$", "not the JSON"),
        (b"\xff", "$", "not the JSON"),
        (b'{"a":' + b"[" * 600 + b"]" * 600 + b"}", "$", "nested deeper"),
        (b'{"type":"call.received","tool":"a","body":{"args":{"a":NaN}}}', "$", "not the JSON"),
    ],
)
def test_what_is_no_command_is_refused_with_the_field_and_the_fix(command: Any, path: str, advice: str):
    with pytest.raises(WireError) as refused:
        read(command)
    assert refused.value.path == path
    assert advice in str(refused.value)


def test_every_command_is_for_clients_or_said_not_to_be():
    assert {kind.__name__ for kind in COMMANDS} == {kind.__name__ for kind in WIRE_COMMANDS} | NOT_FOR_CLIENTS


def test_every_field_that_the_host_fills_in_is_one():
    for kind, hidden in WIRE_COMMANDS.items():
        assert hidden | SAID_BY_HOST <= set(kind.__struct_fields__)
        assert set(client_fields(kind)).isdisjoint(hidden | SAID_BY_HOST)


def test_the_schema_knows_every_command_and_event_and_refers_to_nothing_else():
    made = components()
    assert {f"in.{kind.__name__}" for kind in WIRE_COMMANDS} <= set(made)
    assert {kind.__name__ for kind in (*EVENTS, *LIVE_EVENTS)} <= set(made)
    places = [part.split('"')[0] for part in json.dumps(document()).split('"#/components/schemas/')[1:]]
    assert set(places) <= set(made)


@pytest.mark.parametrize("field", ["actor", "auth", "erased", "tokens", "hooks", "nonsense"])
def test_the_schema_refuses_what_reading_refuses(field: str):
    said = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "hi"}]}}
    assert validator("Command").is_valid(said)
    assert not validator("Command").is_valid(said | {field: None})


async def test_everything_that_a_real_session_tells_fits_the_schema():
    told = await live_session()
    records = [json.loads(record_bytes(one)) for one in told if isinstance(one, Record)]
    lives = [json.loads(live_bytes(one)) for one in told if isinstance(one, Live)]
    assert records
    assert lives
    for name, said in (("Record", records), ("Live", lives)):
        judge = validator(name)
        for one in said:
            judge.validate(one)
    assert [one["seq"] for one in records] == list(range(records[0]["seq"], records[0]["seq"] + len(records)))
    assert all("cursor" in one for one in records)
    assert all(one["ephemeral"] is True and "cursor" not in one for one in lives)
