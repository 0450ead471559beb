"""The loopback HTTP server that plays a language model provider. It never opens a port beyond loopback."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import web

from windlass.testing.model_server.faults.content import mutate
from windlass.testing.model_server.faults.fault import Fault, FaultPlan, fault
from windlass.testing.model_server.faults.sending_steps import FLOOD_MARK
from windlass.testing.model_server.rules.every_format import (
    check_access,
    check_method,
    check_window,
    no_model,
    refusal_of,
)
from windlass.testing.model_server.rules.profiles import CALL_IDS, PROFILES, Context, Profile, profile_named, shaped
from windlass.testing.model_server.rules.verdict import WIRES, body_of, judge, understood
from windlass.testing.model_server.wires.parsed import QUEUE_HEADER, Format, ParsedRequest, Recorded
from windlass.testing.model_server.wires.wire import Made, WireRefused, make

from .answers import Answer, Turn, say
from .memory import Memory
from .playback import REQUEST_ID_HEADERS, play, request_id, send
from .ports import LOOPBACK, Elsewhere, app_of, listening
from .prefixes import PrefixViolation, prefix_violations
from .rate_limits import rate_limit_headers
from .routes import ROOTS, Route, route_of
from .script import Script, Source
from .wire_output import Delivery, Stopped, Stopping

BODY_LIMIT = 64 * 1024 * 1024
"""The largest request body that is read."""

REQUESTS_KEPT = 10_000
"""How many requests are recorded unless said otherwise; the oldest go first."""

SHUTDOWN_S = 1.0
"""How long replies under way may take to end when the server stops."""


class ModelServer:
    """A provider on loopback: scripted, validating, faulty on request, recording.

    Use it as `async with ModelServer(script=[...]) as server:` and point a client at `server.url("openai")`.
    Which answer a request gets: the queue named by its `x-windlass-script` header, else `models[its model]`, else
    `script`, else an echo. `key` demands that key of every request. `window_tokens` is the context window.
    `validate=False` skips the vendor's grammar (for measuring). `known_models` makes every other name a 404.
    `keep` bounds how many requests are remembered."""

    def __init__(
        self,
        script: Source = None,
        *,
        models: Mapping[str, Source] | None = None,
        queues: Mapping[str, Source] | None = None,
        key: str | None = None,
        profile: str | Profile = "",
        window_tokens: int | None = None,
        known_models: tuple[str, ...] | None = None,
        validate: bool = True,
        plan: FaultPlan | None = None,
        keep: int = REQUESTS_KEPT,
        port: int = 0,
    ) -> None:
        self.script = Script(script)
        self.models = {name: Script(source) for name, source in (models or {}).items()}
        self.queues = {name: Script(source) for name, source in (queues or {}).items()}
        self.key = key
        self.profile = profile if isinstance(profile, Profile) else profile_named(profile)
        self.window_tokens = window_tokens
        self.known_models = known_models
        self.validate = validate
        self.plan = plan
        self.port = port
        self.memory = Memory()
        self.elsewhere = Elsewhere()
        self.requests: deque[Recorded] = deque(maxlen=keep)
        self.in_flight = 0
        self.in_flight_max = 0
        self._connections: dict[Any, int] = {}
        self._faults: deque[Fault] = deque()
        self._count = 0
        self._changed = asyncio.Event()
        self._stopping = Stopping()
        self._runner: web.AppRunner | None = None

    # ---- life

    async def start(self) -> ModelServer:
        """Opens the port. The address is known afterwards."""
        await self.elsewhere.start()
        await self.open_port()
        return self

    async def stop(self) -> None:
        """Ends every reply under way and closes the ports."""
        self._stopping.stop()
        await self.close_port()
        await self.elsewhere.stop()

    async def __aenter__(self) -> ModelServer:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def open_port(self) -> None:
        """Listens (again) on the same port."""
        runner = web.AppRunner(
            app_of(self._handle, BODY_LIMIT), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S
        )
        self._runner, self.port = runner, await listening(runner, LOOPBACK, self.port)

    async def close_port(self) -> None:
        """Refuses connections from now on; `open_port` ends it."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    # ---- what a test says to it

    @property
    def root(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def url(self, format: Format, profile: str = "") -> str:
        """The base address for a client of this format, as that vendor's own client takes it."""
        if profile:
            profile_named(profile)
        return f"{self.root}{f'/p/{profile}' if profile else ''}{ROOTS[format]}"

    def say(self, *turns: Turn | Fault) -> None:
        """Adds answers to the default script."""
        self.script.extend(*turns)

    def inject(self, wanted: Fault | str, *, times: int = 1, **changes: Any) -> None:
        """The next `times` valid requests meet this fault."""
        injected_fault = (
            fault(wanted, **changes) if isinstance(wanted, str) else msgspec.structs.replace(wanted, **changes)
        )
        self._faults.extend([injected_fault] * times)

    @property
    def connections(self) -> int:
        """How many connections were ever opened and used."""
        return len(self._connections)

    @property
    def last(self) -> ParsedRequest:
        """The newest request that was valid."""
        return next(each.parsed for each in reversed(self.requests) if each.parsed is not None)

    @property
    def refusals(self) -> list[str]:
        """Why requests were refused by the rules, in order; empty when every request was valid."""
        return [each.error for each in self.requests if each.error]

    def prefix_violations(self, kept: int | None = None) -> list[PrefixViolation]:
        """See `recording.prefix_violations`."""
        return prefix_violations(list(self.requests), kept=kept)

    async def arrived(self, count: int) -> None:
        """Returns once `count` requests have arrived in all."""
        await self._until(lambda: self._count >= count)

    async def idle(self) -> None:
        """Returns once no reply is under way."""
        await self._until(lambda: self.in_flight == 0)

    async def _until(self, reached: Any) -> None:
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    # ---- one request

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        recorded = await self._record(request)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        recorded.in_flight = self.in_flight
        self._changed.set()
        delivery = Delivery(request, recorded, self._stopping)
        try:
            return await self._answer(delivery)
        except Stopped:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)
        except asyncio.CancelledError:
            recorded.client_left = True
            raise
        except ConnectionError:
            recorded.client_left = True
            return web.Response(status=503)  # nobody reads it; raised, it would be logged as a fault of this server
        finally:
            self.in_flight -= 1
            self._changed.set()

    async def _record(self, request: web.Request) -> Recorded:
        raw = await request.read()
        self._count += 1
        peer = request.transport.get_extra_info("peername") if request.transport else None
        recorded = Recorded(
            number=self._count,
            format="",
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers={name.lower(): value for name, value in request.headers.items()},
            raw=raw,
            connection=self._connections.setdefault(peer, len(self._connections) + 1),
            in_flight=0,
        )
        self.requests.append(recorded)
        return recorded

    async def _answer(self, delivery: Delivery) -> web.StreamResponse:
        recorded = delivery.recorded
        route = route_of(recorded.path, anywhere=bool(self.profile.name))
        profile = PROFILES.get(route.profile, self.profile) if route else self.profile
        if route is None or (route.profile and route.profile not in PROFILES):
            recorded.error = f"nothing is served at {recorded.path}"
            return await delivery.json(404, {"error": {"message": recorded.error, "type": "not_found"}}, {})
        recorded.format = route.format
        wire = WIRES[route.format]
        headers = {REQUEST_ID_HEADERS[route.format]: f"req_{recorded.number:08d}"}
        try:
            check_method(route.purpose, recorded.method)
            check_access(route.format, profile, self.key, recorded.headers, recorded.query)
            if route.purpose == "models":
                return await delivery.json(200, self._model_list(route, recorded), headers)
            parsed = self._parse(recorded, route, profile)
            if route.purpose == "count":
                return await delivery.json(200, counted(parsed), headers)
            made, met = self._choose(parsed, recorded, profile)
        except WireRefused as refused:
            recorded.error = refused.message
            body = shaped(wire.error(refused, request_id(recorded)), profile)
            return await delivery.json(refused.status, body, headers)
        headers |= rate_limit_headers(route.format, recorded.number, made.counts.total)
        headers.update(made.answer.headers)
        if met is None:
            return await send(delivery, wire, made, headers)
        recorded.fault = met.name
        if met.how == "status":
            spoken = refusal_of(met, parsed, self.window_tokens)
            body = shaped(wire.error(spoken, request_id(recorded)), profile)
            return await delivery.json(met.status, body, {**headers, **met.headers})
        return await play(delivery, wire, made, met, headers, self.elsewhere.root)

    def _parse(self, recorded: Recorded, route: Route, profile: Profile) -> ParsedRequest:
        body = body_of(recorded.raw)
        model = route.model or body.get("model")
        parsed = understood(
            body,
            route.format,
            model=model if isinstance(model, str) else "",
            stream=route.stream if route.stream is not None else bool(body.get("stream")),
            memory=self.memory,
        )
        parsed.raw, parsed.headers = recorded.raw, recorded.headers
        parsed.path, parsed.number = recorded.path, recorded.number
        if self.validate and route.purpose == "generate":
            judge(
                parsed,
                Context(path=recorded.path, query=recorded.query, headers=recorded.headers),
                profile,
                self.memory,
            )
        if self.known_models is not None and parsed.model not in self.known_models:
            raise no_model(parsed)
        check_window(parsed, self.window_tokens)
        recorded.parsed = parsed
        return parsed

    def _choose(self, parsed: ParsedRequest, recorded: Recorded, profile: Profile) -> tuple[Made, Fault | None]:
        """The answer of the script, with the fault that it meets already in its words."""
        injected = self._faults.popleft() if self._faults else None
        if injected is None and self.plan is not None:
            injected = self.plan.draw(recorded.number)
        queue = recorded.headers.get(QUEUE_HEADER)
        script = self.queues.get(queue) if queue is not None else None
        answer, met = (script or self.models.get(parsed.model) or self.script).take(parsed, injected)
        if met is not None:
            answer = say(FLOOD_MARK, chunk_chars=len(FLOOD_MARK)) if met.how == "flood" else mutate(answer, parsed, met)
        return self._make(answer, parsed, recorded, profile), met

    def _make(self, answer: Answer, parsed: ParsedRequest, recorded: Recorded, profile: Profile) -> Made:
        made = make(
            answer,
            parsed,
            number=recorded.number,
            call_ids=profile.call_ids or CALL_IDS[parsed.format],
            reasoning_field=profile.reasoning_field,
        )
        self.memory.remember(made)
        return made

    def _model_list(self, route: Route, recorded: Recorded) -> Any:
        names = list(self.known_models or self.models or ("test-model",))
        if recorded.path.endswith("/api/tags"):
            return {"models": [{"name": name, "model": name} for name in names]}
        if route.format == "gemini":
            return {"models": [{"name": f"models/{name}", "displayName": name} for name in names]}
        return {"object": "list", "data": [{"id": name, "object": "model", "type": "model"} for name in names]}


def counted(parsed: ParsedRequest) -> dict[str, int]:
    tokens = parsed.input_chars // 4 + 1
    return {"totalTokens": tokens} if parsed.format == "gemini" else {"input_tokens": tokens}
