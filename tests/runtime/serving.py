"""An agent behind the loopback model server: real HTTP, a real SQLite file, and what must hold after every test."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

import windlass
from windlass.events.turns import PrefixChanged
from windlass.models.base import ModelInfo, Request
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.transport.http_model import WireModel
from windlass.models.transport.timeouts import Timeouts
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.runtime.bind.model_requests import SUMMARY_REQUEST
from windlass.testing.model_server import Format, ModelServer, PrefixViolation, Recorded, prefix_violations

from .support import QUICK, events_of, only, sound

ENDPOINT_OF: dict[Format, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "responses": "openai-responses",
    "gemini": "gemini",
}
FORMATS: tuple[Format, ...] = ("anthropic", "openai", "responses", "gemini")
PATIENT = Timeouts()
HURRIED = Timeouts(headers=0.5, first_output=0.5, idle=0.5)

TASK_STATE = "[task state]"

numbers = itertools.count(1)


class HurriedModel(WireModel):
    """Has little patience with the requests that are to be answered late, and all the time in the world for others: a
    busy machine makes no answer late that should be in time."""

    hurries: Callable[[Request], bool]

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        self.timeouts = HURRIED if self.hurries(request) else PATIENT
        async for answer in super().stream(request):
            yield answer


def model_at(
    server: ModelServer,
    form: Format = "openai",
    *,
    hurries: Callable[[Request], bool] | None = None,
    **info: Any,
) -> WireModel:
    """A model behind the server, with a key of its own: a key shares its circuit breaker."""
    endpoint = msgspec.structs.replace(ENDPOINTS[ENDPOINT_OF[form]], base_url=server.url(form))
    known = ModelInfo(name=f"{endpoint.name}/m", provider=endpoint.name, model="m", **info)
    key = info.pop("key", f"sk-runtime-{next(numbers):08}")
    model = HurriedModel(endpoint, "m", credential=key, info=known, timeouts=PATIENT)
    model.hurries = hurries or (lambda request: False)
    return model


class Case:
    """One server, one store file, and the agents opened on them."""

    def __init__(self, server: ModelServer, place: pathlib.Path) -> None:
        self.server = server
        self.place = str(place / "work.db")
        self.models: list[WireModel] = []
        self.changes = 0
        """How often the sessions said that their prefix changes."""

    def agent(self, form: Format = "openai", *, info: dict[str, Any] | None = None, **more: Any) -> windlass.Agent:
        """An agent whose model waits as long as it takes, but for requests of which `hurries` says otherwise."""
        hurries = more.pop("hurries", None)
        more.setdefault("settings", QUICK)
        model = model_at(self.server, form, hurries=hurries, **(info or {}))
        self.models.append(model)
        return windlass.Agent("worker", model=model, **more)

    @contextlib.asynccontextmanager
    async def session(self, agent: windlass.Agent, **more: Any) -> AsyncIterator[Session]:
        """A session that is sound when the block ends."""
        async with windlass.open(self.place, agents=[agent], durability="normal", poll_ms=10, **more) as rt:
            session = await rt.session(agent, "s")
            yield session
            await sound(session)
            self.changes = len(only(await events_of(session), PrefixChanged))

    def runtime(self, agent: windlass.Agent, **more: Any) -> Runtime:
        return windlass.open(self.place, agents=[agent], durability="normal", poll_ms=10, **more)


@contextlib.asynccontextmanager
async def serving(place: pathlib.Path, *script: Any, **more: Any) -> AsyncIterator[Case]:
    """A case whose server accepted every request, and saw every prefix kept but where a session said so."""
    source = script[0] if len(script) == 1 and callable(script[0]) else list(script)
    async with ModelServer(script=source, **more) as server:
        case = Case(server, place)
        try:
            yield case
        finally:
            for model in case.models:
                await model.close()
        assert server.refusals == []
        broken = prefixes_broken(list(server.requests))
        assert len(broken) <= case.changes, broken


def prefixes_broken(requests: list[Recorded]) -> list[PrefixViolation]:
    """Where consecutive requests of one conversation part company before the end of the earlier one's history. The
    summaries' lane is left out: each summary has a history of its own. So is the task state, which is never kept."""
    found: list[PrefixViolation] = []
    last: dict[str, Recorded] = {}
    for request in requests:
        if request.parsed is None or SUMMARY_REQUEST in request.parsed.prompt:
            continue
        opening = next((each.text for each in request.parsed.messages if each.role == "user"), "")
        before = last.get(opening)
        if before is not None:
            passing = before.parsed is not None and TASK_STATE in before.parsed.prompt
            found += prefix_violations([before, request], kept=-1 if passing else None)
        last[opening] = request
    return found
