"""A model behind HTTP: sends what a wire format encodes and reads what it answers, one exchange at a time.

Retries nothing (that is planned above) except once with a fresh key; hands on no answer that is not complete.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import WindlassError
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.failures import Failure, FailureKind
from windlass.models.base import CredentialGuard, CredentialUse, Delta, ModelInfo, Reply, Request
from windlass.models.catalogue.endpoints import Credential, Endpoint, address_hint
from windlass.models.wires.encoded_history import Blobs, Histories, Kept, blob_refs, extend
from windlass.models.wires.wire_format import Format, Reader

from . import failures
from .breaker import Breaker, breaker_for
from .failures import Context
from .quotas import quotas
from .sse import EventParser
from .surrogate_pairs import SurrogatePairs
from .timeouts import DEFAULT_TIMEOUTS, Timeouts

if TYPE_CHECKING:
    from .http import Exchange

Answer = Delta | list[Delta] | Reply | Failure
Work = Callable[["Exchange", "Sent"], Awaitable[Any]]
SSE_TYPE = "text/event-stream"
JSON_TYPE = "application/json"
REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-goog-request-id", "apim-request-id", "cf-ray")
USER_AGENT = "windlass"
LOG = logging.getLogger("windlass.models")
EXPIRED = {
    "headers": "no answer began in time",
    "first_output": "the answer began, but no output came in time",
    "idle": "the output stopped coming",
    "total": "the answer was not complete in time",
}


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it is sent. The bytes before `history_end` begin the next request of the same conversation too,
    cache markers aside."""

    body: bytes
    history_end: int


@dataclasses.dataclass(slots=True)
class Sent:
    """One exchange on its way: what was sent, with which key, and when the first output came."""

    request: Request
    body: bytes
    key: str | None
    first_output_ms: int | None = None
    request_id: str | None = None
    reader: Reader | None = None
    parser: EventParser | None = None
    pairs: SurrogatePairs = dataclasses.field(default_factory=SurrogatePairs)


class WireModel:
    """A `Model` that speaks one wire format to one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        *,
        credential: Credential | None,
        info: ModelInfo,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        breaker: Breaker | None = None,
    ) -> None:
        from . import http

        # Not at the top of this file: it brings asyncio, which a model that is only described can do without.
        self._http = http
        self.endpoint = endpoint
        self.model = model
        self.timeouts = timeouts
        self._credential = credential
        self._info = info
        self._format: Format = make_format(endpoint, model, info)
        self._histories = Histories(self._format.history)
        self._breaker = breaker
        self._breaker_key: str | None = None
        self._urls: dict[bool, Any] = {}

    @property
    def info(self) -> ModelInfo:
        return self._info

    def render(self, request: Request, blobs: Blobs | None = None) -> Rendered:
        """The bytes of this request. Encodes only what earlier requests of the same conversation did not have."""
        kept = self._histories.take(request.session, request.lane, request.items)
        return self._render(request, kept, blobs or {})

    def _render(self, request: Request, kept: Kept, blobs: Blobs) -> Rendered:
        made_from = (*head_inputs(request), self._format.variant(request))
        if kept.head_from != made_from:
            kept.head = self._format.head(request)
            kept.head_from = made_from
        history = kept.history
        known = len(history.items)
        if known < len(request.items):
            before = len(history.buffer)
            extend(history, request.items[known:] if known else request.items, blobs)
            if request.session:
                self._histories.grown(len(history.buffer) - before)
        dropped, tail = self._format.tail(history, request)
        buffer: Any = memoryview(history.buffer)[: len(history.buffer) - dropped] if dropped else history.buffer
        return Rendered(
            body=b"".join((kept.head, buffer, tail)), history_end=len(kept.head) + len(history.buffer) - dropped
        )

    async def stream(self, request: Request) -> AsyncIterator[Answer]:
        """Deltas, one list per network chunk, then exactly one `Reply` or `Failure`."""
        key, failure = await self._key(request)
        if failure is not None:
            yield failure
            return
        sent = Sent(request=request, body=(await self._body(request)).body, key=key)
        LOG.debug("%s: %s of %d bytes to %s", request.session, request.attempt, len(sent.body), self.endpoint.name)
        breaker = self._breaker_of(key)
        wait_ms = breaker.blocked_ms()
        if wait_ms:
            message = f"endpoint {self.endpoint.name!r} failed repeatedly; next try in {wait_ms} ms"
            context = Context(self.endpoint.name, self.model)
            yield failures.failed("circuit_open", message, context, retry_after_ms=wait_ms)
            return
        exchange = self._http.Exchange(self.timeouts)
        ended = False
        try:
            opened = await self._guarded(self._open, exchange, sent)
            if isinstance(opened, Failure) and opened.status == 401:
                opened = await self._renewed(opened, sent)
                if opened is None:
                    exchange.abandon()
                    exchange = self._http.Exchange(self.timeouts)
                    opened = await self._guarded(self._open, exchange, sent)
            answer: Answer = opened if isinstance(opened, Failure) else []
            while type(answer) is list:
                if answer:
                    yield answer
                answer = await self._guarded(self._step, exchange, sent)
            ended = True
            self._ended(request, breaker, answer)
            yield answer
        finally:
            exchange.abandon()
            if not ended:
                breaker.released()

    def _ended(self, request: Request, breaker: Breaker, answer: Answer) -> None:
        if LOG.isEnabledFor(logging.DEBUG):
            how = f"{answer.kind}: {answer.message}" if isinstance(answer, Failure) else "answered"
            LOG.debug("%s: %s %s", request.session, request.attempt, how)
        if isinstance(answer, Reply):
            breaker.succeeded()
            self._format.replied(request, answer)
        elif isinstance(answer, Failure):
            breaker.failed(answer.kind)
            self._format.failed(request, answer)

    async def _guarded(self, work: Work, exchange: Exchange, sent: Sent) -> Any:
        """Does one part of an exchange; what the world does to it comes back as a failure."""
        try:
            return await work(exchange, sent)
        except Exception as error:  # which of them are the world's doing is looked up when there is one: imports cost
            return self._broken(error, exchange, sent)

    def _broken(self, error: Exception, exchange: Exchange, sent: Sent) -> Failure:
        """What an exception of an exchange means. Raises it again if it is a bug of ours."""
        from aiohttp import ClientError

        from .sse import LineTooLong

        http = self._http
        match error:
            case http.Expired():
                kind: Any = f"{error}_timeout"
                return self._failure(kind, EXPIRED[str(error)], exchange, sent)
            case http.TooMuch() | LineTooLong():
                return self._failure("reply_too_large", str(error), exchange, sent)
            case RecursionError():
                return self._failure("malformed_reply", "the answer is nested too deeply", exchange, sent)
            case msgspec.DecodeError() | UnicodeError() | http.BadEncoding():
                return self._failure("malformed_reply", f"the answer is not the format: {error}", exchange, sent)
            case ClientError() | OSError():
                broken, message = network_failure(error, begun=exchange.response is not None)
                if broken in ("connect_failed", "connect_timeout"):
                    message += address_hint(self.endpoint)
                return self._failure(broken, message, exchange, sent)
            case _:
                raise error

    async def _open(self, exchange: Exchange, sent: Sent) -> Failure | None:
        """Sends the request; none once a good answer has begun."""
        streamed = sent.request.stream
        session = await self._http.join(self)
        response = await exchange.send(
            session, self._url(streamed), self._headers(sent, streamed), sent.body, streamed=streamed
        )
        headers = response.headers
        sent.request_id = next((headers[name] for name in REQUEST_ID_HEADERS if name in headers), None)
        if response.status != 200:
            text = await exchange.whole(self._http.ERROR_BYTES_MAX)
            return failures.from_response(response.status, headers, text, self._context(exchange, sent))
        wanted = SSE_TYPE if streamed else JSON_TYPE
        if response.content_type != wanted:
            if response.content_type == JSON_TYPE:
                text = await exchange.whole(self._http.ERROR_BYTES_MAX)
                said = failures.from_body(text, self._context(exchange, sent))
                if said is not None:
                    return said
            message = f"expected {wanted}, got {response.content_type!r}"
            return self._failure("malformed_reply", message, exchange, sent)
        return None

    async def _step(self, exchange: Exchange, sent: Sent) -> Answer:
        """The deltas of the next network chunk that has some, or the end."""
        reader = sent.reader
        if reader is None:
            reader = sent.reader = self._format.reader(sent.request)
            sent.parser = EventParser()
        if not sent.request.stream:
            return self._closed_whole(exchange, sent, reader, await exchange.whole())
        watch = exchange.watch
        assert watch is not None
        assert sent.parser is not None
        while not (reader.ended or reader.error is not None):
            chunk = await exchange.read()
            if not chunk:
                reader.eof()
                return self._closed(exchange, sent, reader)
            events = sent.pairs.joined(sent.parser.feed(chunk))
            deltas = reader.feed(events) if events else []
            if deltas or reader.moved:
                watch.content()
                reader.moved = False
            if deltas:
                if sent.first_output_ms is None:
                    sent.first_output_ms = exchange.elapsed_ms()
                return deltas
        await exchange.finish()
        return self._closed(exchange, sent, reader)

    def _closed_whole(self, exchange: Exchange, sent: Sent, reader: Reader, body: bytes) -> Reply | Failure:
        try:
            reader.whole(sent.pairs.joined([body])[0])
        except msgspec.DecodeError:
            if body.rstrip().endswith(b"}"):
                raise
            return self._failure("truncated_reply", "the body ended before it was complete", exchange, sent)
        return self._closed(exchange, sent, reader)

    def _closed(self, exchange: Exchange, sent: Sent, reader: Reader) -> Reply | Failure:
        context = self._context(exchange, sent)
        if reader.error is not None:
            return failures.from_stream(reader.error, context)
        if not reader.ended:
            message = "the stream ended without its end marker" if sent.request.stream else "the answer is incomplete"
            return failures.failed("truncated_reply", message, context)
        assert exchange.response is not None
        return reader.draft.close(
            context,
            sent_bytes=len(sent.body),
            quotas=quotas(exchange.response.headers),
            first_output_ms=sent.first_output_ms,
        )

    def _failure(self, kind: FailureKind, message: str, exchange: Exchange, sent: Sent) -> Failure:
        return failures.failed(kind, message, self._context(exchange, sent))

    def _context(self, exchange: Exchange, sent: Sent) -> Context:
        return Context(self.endpoint.name, self.model, sent.key, sent.request_id, exchange.elapsed_ms())

    async def _body(self, request: Request) -> Rendered:
        request = self._format.prepared(request)
        blobs: dict[str, str | None] = {}
        while True:  # what was kept of this conversation may have grown or gone while blobs were fetched
            kept = self._histories.take(request.session, request.lane, request.items)
            wanted = [ref for ref in blob_refs(request.items[len(kept.history.items) :]) if ref.digest not in blobs]
            if request.blobs is None or not wanted:
                return self._render(request, kept, blobs)
            for ref in wanted:
                raw = await request.blobs(ref)
                blobs[ref.digest] = None if raw is None else base64.b64encode(raw).decode()

    async def _key(self, request: Request) -> tuple[str | None, Failure | None]:
        """The key for this request, or why there is none."""
        credential = self._credential
        if credential is not None and request.credential_guard is not None:
            denied = await self._denied(request.credential_guard)
            if denied is not None:
                return None, denied
        try:
            given = credential() if callable(credential) else credential
            key = await given if inspect.isawaitable(given) else given
            SECRETS.add_key(key)
        except WindlassError as error:
            failure = getattr(error, "failure", None)
            if not isinstance(failure, Failure):
                raise
            return None, msgspec.structs.replace(failure, provider=self.endpoint.name, model=self.model)
        if not key and self.endpoint.needs_key:
            names = " or ".join(self.endpoint.key_env) or "a credential"
            context = Context(self.endpoint.name, self.model)
            return None, failures.failed("no_credentials", f"no key for {self.endpoint.name!r}: set {names}", context)
        return key or None, None

    async def _denied(self, guard: CredentialGuard) -> Failure | None:
        """Why the credential may not be used for a request."""
        from windlass.models.catalogue.credentials import label_of, origin_of

        origin = origin_of(self.endpoint.base_url)
        use = CredentialUse(
            endpoint=self.endpoint.name, origin=origin, model=self.model, name=label_of(self._credential)
        )
        return await guard(use)

    async def _renewed(self, refusal: Failure, sent: Sent) -> Failure | None:
        """After a 401: tells the credential, and takes its next key. None if there is one, else what to report."""
        refused = getattr(self._credential, "refused", None)
        if refused is None or sent.key is None:
            return refusal
        answer = refused(sent.key)
        if not (await answer if inspect.isawaitable(answer) else answer):
            return refusal
        sent.key, failure = await self._key(sent.request)
        return failure

    def _headers(self, sent: Sent, streamed: bool) -> dict[str, str]:
        endpoint, key = self.endpoint, sent.key
        headers = {
            "Content-Type": JSON_TYPE,
            "Accept": SSE_TYPE if streamed else JSON_TYPE,
            "Accept-Encoding": "identity",
            "User-Agent": USER_AGENT,
            **endpoint.headers,
        }
        if key:
            headers[endpoint.auth_header] = f"{endpoint.auth_scheme} {key}" if endpoint.auth_scheme else key
        if sent.request.traceparent:
            headers["traceparent"] = sent.request.traceparent
        return headers

    def _url(self, streamed: bool) -> Any:
        url = self._urls.get(streamed)
        if url is None:
            from yarl import URL

            url = URL(self.endpoint.base_url + self._format.path(stream=streamed), encoded=True)
            if self.endpoint.query:
                url = url.update_query(self.endpoint.query)
            self._urls[streamed] = url
        return url

    def _breaker_of(self, key: str | None) -> Breaker:
        if self._breaker is None or (self._breaker_key is not None and self._breaker_key != (key or "")):
            digest = hashlib.sha256((key or "").encode()).hexdigest()[:16]
            self._breaker = breaker_for(self.endpoint.base_url, digest)
            self._breaker_key = key or ""
        return self._breaker

    async def close(self) -> None:
        """Gives the client session that is shared on this event loop back; the last model to do so closes it."""
        await self._http.leave(self)


def make_format(endpoint: Endpoint, model: str, info: ModelInfo) -> Format:
    """The wire format of an endpoint, imported at its first use."""
    if endpoint.wire == "openai_chat":
        from windlass.models.wires.openai_chat.writer import ChatFormat

        return ChatFormat(endpoint, model, info)
    if endpoint.wire == "anthropic":
        from windlass.models.wires.anthropic.writer import MessagesFormat

        return MessagesFormat(endpoint, model, info)
    if endpoint.wire == "openai_responses":
        from windlass.models.wires.openai_responses.writer import ResponsesFormat

        return ResponsesFormat(endpoint, model, info)
    from windlass.models.wires.gemini.writer import GeminiFormat

    return GeminiFormat(endpoint, model, info)


def head_inputs(request: Request) -> tuple[Any, ...]:
    """What the head of a body is made from."""
    return (
        request.instructions,
        request.knowledge,
        request.tools,
        request.server_tools,
        request.output,
        request.settings,
        request.stream,
        request.session,
        request.lane,
    )


def network_failure(error: Exception, *, begun: bool) -> tuple[FailureKind, str]:
    """What went wrong below HTTP. The messages of aiohttp name hosts and ports, never headers."""
    import aiohttp

    if isinstance(error, aiohttp.ClientPayloadError) and not isinstance(error.__cause__, OSError):
        return "truncated_reply", "the body ended before it was complete"
    if begun:
        return "connection_reset", f"the connection broke while the answer came: {type(error).__name__}"
    if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
        return "connect_timeout", "no connection in time"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientProxyConnectionError):
        return "connect_failed", f"cannot connect: {error}"
    if isinstance(error, aiohttp.ClientConnectionError | ConnectionError):
        return "connection_reset", f"the connection broke before the answer: {type(error).__name__}"
    if isinstance(error, aiohttp.ClientResponseError):
        return "malformed_reply", f"the answer is not HTTP: {type(error).__name__}"
    return "connect_failed", f"cannot connect: {type(error).__name__}"
