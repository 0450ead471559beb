"""Webhooks: signed requests from outside that become signals of sessions. Each endpoint has a secret of its own, and
says which session hears of it; what is sent says only what happened."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import stat
import time
import tomllib
from collections.abc import Mapping

import msgspec

from windlass.events.errors import NotFound, UsageError
from windlass.events.signals import SignalBody, SignalReceived
from windlass.events.values.attention import Urgency
from windlass.events.values.label_words import checked as checked_labels
from windlass.protocol.wire_commands import read_object
from windlass.runtime.api.sent_command import Sent
from windlass.runtime.api.session import Session
from windlass.store.base import Key
from windlass.store.rules.ids import check_key

from .access.signatures import is_signed, secret_of
from .http_answer import Answer
from .http_call import Call, no_agent
from .mount import Mount
from .problems import Problem
from .resources.requests import Accepted, accepted
from .route import Parameter, Route

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
BODY_BYTES_MAX = 256 * 1024
FILE_BYTES_MAX = 64 * 1024
SECRETS_MAX = 4
"""How many secrets an endpoint may have at a time, while one takes the place of another."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One endpoint: who may ask it, and what its requests become."""

    name: str
    session: str
    """The session that hears of it."""
    kind: str
    """What happened, as a word: the kind of the signal."""
    secret_env: str = ""
    """The environment variable that holds the secret."""
    secret_file: str = ""
    """The file that holds the secret, for its owner alone; one on each line."""
    agent: str = ""
    """Whose session it is, if it is to be begun when there is none."""
    urgency: Urgency = "normal"
    labels: tuple[str, ...] | None = None
    """What the signal is marked with: `untrusted:NAME`, if nothing is said."""
    tenant: str = "default"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    webhook: list[Webhook] = []


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint with its secrets."""

    hook: Webhook
    secrets: tuple[bytes, ...]


def endpoints_of(path: str) -> dict[str, Endpoint]:
    """The endpoints that a TOML file describes. Raises `UsageError` that names what is wrong in it."""
    place = pathlib.Path(path)
    try:
        text = place.read_text(encoding="utf-8")
        hooks = msgspec.convert(tomllib.loads(text), _File).webhook
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: the webhooks cannot be read: {error}") from None
    endpoints: dict[str, Endpoint] = {}
    for hook in hooks:
        if not NAME.match(hook.name) or hook.name in endpoints:
            raise UsageError(f"{path}: {hook.name!r} is no name for a webhook, or there twice")
        try:
            check_key(Key(hook.tenant, hook.session))
            checked_labels(hook.labels or ())
            endpoints[hook.name] = Endpoint(hook, _secrets(hook, place.parent))
        except UsageError as error:
            raise UsageError(f"{path}: webhook {hook.name!r}: {error}") from None
    return endpoints


def _secrets(hook: Webhook, folder: pathlib.Path) -> tuple[bytes, ...]:
    if bool(hook.secret_env) == bool(hook.secret_file):
        raise UsageError("give it one of secret_env and secret_file")
    if hook.secret_env:
        given = [os.environ.get(hook.secret_env, "")]
        if not given[0]:
            raise UsageError(f"the variable {hook.secret_env} is not set")
    else:
        given = _lines(folder / hook.secret_file)
    return tuple(secret_of(line) for line in given[:SECRETS_MAX])


def _lines(path: pathlib.Path) -> list[str]:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise UsageError(f"{path}: a secret must be its owner's alone: chmod 600 {path}")
            lines = [line for line in file.read(FILE_BYTES_MAX).decode().splitlines() if line.strip()]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path}: the secret cannot be read: {error}") from None
    if not lines:
        raise UsageError(f"{path}: there is no secret in it")
    return lines


class Webhooks:
    """The endpoints of a server."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def receive(self, call: Call) -> Answer:
        """Takes a signed request, once for its id."""
        endpoint = self._endpoints.get(call.names["hook"])
        body = await call.body(min(BODY_BYTES_MAX, call.limits.body_bytes))
        message_id = call.headers.get("webhook-id", "")
        stamp, given = call.headers.get("webhook-timestamp", ""), call.headers.get("webhook-signature", "")
        secrets = endpoint.secrets if endpoint is not None else (os.urandom(32),)
        if not is_signed(secrets, message_id, stamp, given, body, time.time()) or endpoint is None:
            raise Problem(401, "signature", "this is not signed for such a webhook, or was signed too long ago")
        hook = endpoint.hook
        session = await self._session(call, hook)
        name = f"webhook:{hook.name}"
        command = SignalReceived(
            command_id=f"{name}:{hashlib.sha256(message_id.encode()).hexdigest()[:32]}",
            actor=name,
            auth="token",
            kind=hook.kind,
            source=name,
            urgency=hook.urgency,
            labels=hook.labels if hook.labels is not None else (f"untrusted:{hook.name}",),
            body=_said(call, body),
        )
        await Sent(session, command)
        return await accepted(session, command.command_id, SignalReceived, name)

    async def _session(self, call: Call, hook: Webhook) -> Session:
        runtime = await call.server.tenants.runtime(hook.tenant)
        try:
            return await runtime.get(hook.session)
        except NotFound:
            if not hook.agent:
                raise
        agent = call.server.tenants.agents.get(hook.agent)
        if agent is None:
            raise no_agent(call, hook.agent)
        return await runtime.session(agent, hook.session)


def _said(call: Call, body: bytes) -> SignalBody:
    """What a request says: a JSON object as data, anything else as text."""
    if "json" in call.headers.get("content-type", "") and not (body and _is_no_object(body)):
        return SignalBody(payload=read_object(body) if body else {})
    return SignalBody(text=body.decode("utf-8", "replace"))


def _is_no_object(body: bytes) -> bool:
    """Whether this is JSON, and another value than an object: a list, say, of what happened."""
    try:
        msgspec.json.decode(body, type=list[msgspec.Raw] | str | float | bool | None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


SIGNED = tuple(
    Parameter(name=name, words=words, place="header")
    for name, words in (
        ("webhook-id", "The id of the message: the same sent again is taken once."),
        ("webhook-timestamp", "When it was sent, in seconds since 1970; five minutes at the most from now."),
        ("webhook-signature", "`v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body`; several with spaces."),
    )
)


def webhook_mount(endpoints: Mapping[str, Endpoint]) -> Mount:
    """The route of webhooks, which joins those of a server."""
    route = Route(
        method="POST",
        path="/v1/webhooks/{hook}",
        name="receiveWebhook",
        role="drive",
        words="Tells a session that something happened, signed as Standard Webhooks says.",
        handler=Webhooks(endpoints).receive,
        parameters=SIGNED,
        takes_bytes=True,
        gives=Accepted,
        also=(202,),
        fails=(409, 422, 507),
        while_draining=False,
        signed=True,
    )
    needed = {one.hook.agent: f"the webhook {one.hook.name!r}" for one in endpoints.values() if one.hook.agent}
    names = {"hook": {"type": "string", "maxLength": 64}}
    return Mount(name="webhooks", routes=(route,), names=names, agents=needed)
