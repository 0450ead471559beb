"""Webhooks: what is signed lately and for the endpoint becomes one signal; everything else is nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import pathlib
import time
from typing import Any

import pytest

import windlass
from windlass.events.errors import UsageError
from windlass.server.access.signatures import WINDOW_S, is_signed, secret_of, signature
from windlass.server.webhooks import endpoints_of, webhook_mount
from windlass.store.base import Key

from .support import Client, Running, Said, clerk, serving

SECRET = b"a secret of more than 24 bytes"
OTHER = b"another secret of enough bytes"
FILE = """
[[webhook]]
name = "ci"
session = "march"
agent = "clerk"
kind = "build"
urgency = "low"
secret_file = "ci.secret"

[[webhook]]
name = "mail"
session = "nobody"
kind = "letter"
labels = []
secret_env = "TEST_MAIL_SECRET"
"""


@pytest.fixture
def hooks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    secret = tmp_path / "ci.secret"
    secret.write_text(f"{SECRET.decode()}\n{OTHER.decode()}\n")
    secret.chmod(0o600)
    monkeypatch.setenv("TEST_MAIL_SECRET", f"whsec_{base64.b64encode(OTHER).decode()}")
    (tmp_path / "hooks.toml").write_text(FILE)
    return str(tmp_path / "hooks.toml")


def headers(body: bytes, message_id: str = "m1", *, secret: bytes = SECRET, at: float | None = None) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    signed = signature(secret, message_id, stamp, body)
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": signed}


async def sent(client: Client, body: bytes, given: dict[str, str], name: str = "ci", kind: str = "") -> Said:
    more = {"Content-Type": kind} if kind else {}
    return await client.ask("POST", f"/v1/webhooks/{name}", data=body, headers=given | more)


async def signals(running: Running) -> list[dict[str, Any]]:
    records = await running.client().records("march")
    return [one["event"] for one in records if one["event"]["type"] == "signal.received"]


async def test_a_signed_request_becomes_one_signal_however_often_it_is_sent(tmp_path, hooks):
    body = json.dumps({"status": "red", "branch": "main"}).encode()
    async with serving(tmp_path, [clerk()], mounts=[webhook_mount(endpoints_of(hooks))]) as running:
        stranger = running.stranger()
        given = headers(body)
        first = await sent(stranger, body, given, kind="application/json")
        assert first.status == 200, first
        again = await asyncio.gather(*(sent(stranger, body, given, kind="application/json") for _ in range(5)))
        later = await sent(stranger, body, headers(body, secret=OTHER), kind="application/json")
        assert [said.json for said in (*again, later)] == [first.json] * 6
        (signal,) = await signals(running)
        assert (signal["kind"], signal["urgency"], signal["source"]) == ("build", "low", "webhook:ci")
        assert signal["actor"] == "webhook:ci"
        assert signal["labels"] == ["untrusted:ci"]
        assert signal["body"] == {"payload": {"status": "red", "branch": "main"}}
        assert (await sent(stranger, b"red", headers(b"red", "m2"))).status == 200
        assert (await signals(running))[1]["body"] == {"text": "red"}


async def test_a_webhook_for_an_agent_that_nobody_serves_is_refused_before_the_server_begins(tmp_path, hooks):
    with pytest.raises(
        UsageError, match="the webhook 'ci' needs the agent 'clerk', which is not served here: there are"
    ):
        async with serving(tmp_path, [], mounts=[webhook_mount(endpoints_of(hooks))]):
            raise AssertionError("it began")


async def test_what_is_not_signed_for_the_endpoint_lately_is_nothing_and_learns_nothing(tmp_path, hooks):
    body, now = b"red", time.time()
    good = headers(body)
    wrong: dict[str, tuple[bytes, dict[str, str], str]] = {
        "another body": (b"green", good, "ci"),
        "another id": (body, good | {"webhook-id": "m2"}, "ci"),
        "another time": (body, good | {"webhook-timestamp": str(int(now) + 5)}, "ci"),
        "too old": (body, headers(body, at=now - WINDOW_S - 60), "ci"),
        "from the future": (body, headers(body, at=now + WINDOW_S + 60), "ci"),
        "no number for a time": (body, headers(body) | {"webhook-timestamp": "soon"}, "ci"),
        "another secret": (body, headers(body, secret=b"guessed, and long enough too"), "ci"),
        "another endpoint": (body, good, "mail"),
        "no such endpoint": (body, good, "nothing"),
        "another version": (body, good | {"webhook-signature": "v0" + good["webhook-signature"][2:]}, "ci"),
        "no signature": (body, {}, "ci"),
        "no id": (body, headers(body, ""), "ci"),
    }
    async with serving(tmp_path, [clerk()], mounts=[webhook_mount(endpoints_of(hooks))]) as running:
        await running.client().begin("march")
        answers = {name: await sent(running.stranger(), *given[:2], name=given[2]) for name, given in wrong.items()}
        assert {name: (said.status, said.code) for name, said in answers.items()} == dict.fromkeys(
            wrong, (401, "signature")
        )
        assert len({said.body for said in answers.values()}) == 1
        assert await signals(running) == []
        token = {"Authorization": f"Bearer {running.client().token}"}
        assert (await sent(running.stranger(), body, token)).status == 401, "no token stands for a signature"
        assert (await sent(running.stranger(), body, good)).status == 200


async def test_a_session_that_is_not_there_is_told_to_who_has_signed_and_a_large_body_is_refused(tmp_path, hooks):
    async with serving(tmp_path, [clerk()], mounts=[webhook_mount(endpoints_of(hooks))]) as running:
        assert (await sent(running.stranger(), b"x", headers(b"x", secret=OTHER), "mail")).status == 404
        large = b"x" * 300_000
        assert (await sent(running.stranger(), large, headers(large))).status == 413
        broken = b'{"status": '
        assert (await sent(running.stranger(), broken, headers(broken), kind="application/json")).status == 422


async def test_json_that_is_no_object_is_told_as_text_and_begins_a_session_whose_beginning_was_cut_off(tmp_path, hooks):
    async with windlass.open(str(tmp_path / "store.db")) as killed:
        await killed.store.log.create(Key("default", "march"))  # all that a kill between the two writes leaves
    async with serving(tmp_path, [clerk()], mounts=[webhook_mount(endpoints_of(hooks))]) as running:
        listed = b'[{"event": "bounced"}, {"event": "opened"}]'
        taken = await sent(running.stranger(), listed, headers(listed), kind="application/json")
        assert taken.status == 200, taken
        assert [signal["body"] for signal in await signals(running)] == [{"text": listed.decode()}]


def test_a_signature_is_what_the_standard_says_it_is():
    """The example of the Standard Webhooks specification."""
    secret = secret_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    wanted = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    message_id, stamp = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"
    assert signature(secret, message_id, stamp, body) == wanted
    assert is_signed([secret], message_id, stamp, f"v1,nothing {wanted}", body, 1614265330.0 + WINDOW_S)
    assert not is_signed([secret], message_id, stamp, wanted, body, 1614265330.0 + WINDOW_S + 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('name = "ci"', 'name = "c i"'), "is no name for a webhook"),
        (('name = "mail"', 'name = "ci"'), "or there twice"),
        (('secret_file = "ci.secret"', ""), "one of secret_env and secret_file"),
        (('"ci.secret"', '"gone.secret"'), "cannot be read"),
        (('"TEST_MAIL_SECRET"', '"TEST_UNSET_SECRET"'), "is not set"),
        (('urgency = "low"', 'urgency = "soon"'), "urgency"),
        (('kind = "build"', 'kinds = "build"'), "kind"),
    ],
)
def test_a_file_of_webhooks_that_cannot_be_is_refused_with_what_is_wrong(hooks, change, why):
    path = pathlib.Path(hooks)
    path.write_text(FILE.replace(*change))
    with pytest.raises(UsageError, match=why):
        endpoints_of(hooks)


def test_a_secret_that_others_may_read_or_that_is_short_is_refused(hooks):
    secret = pathlib.Path(hooks).parent / "ci.secret"
    secret.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        endpoints_of(hooks)
    secret.chmod(0o600)
    secret.write_text("short\n")
    with pytest.raises(UsageError, match="can be guessed"):
        endpoints_of(hooks)
