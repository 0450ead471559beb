"""A model made of several: the first that answers is used, and a session stays with the one that answered it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from windlass.events.errors import UsageError
from windlass.events.values.failures import Failure

from .base import Delta, Model, ModelInfo, Reply, Request

SESSIONS_MAX = 10_000

FALLS_BACK: frozenset[str] = frozenset(
    {
        "rate_limited",
        "overloaded",
        "quota_exhausted",
        "auth",
        "reauth_required",
        "no_credentials",
        "permission",
        "invalid_model",
        "server_error",
        "connect_failed",
        "connection_reset",
        "connect_timeout",
        "headers_timeout",
        "first_output_timeout",
        "circuit_open",
        "redirected",
    }
)
"""Failures that say something about the endpoint. A bad request, a filtered answer or an overfull context would
meet the same end elsewhere, or needs another remedy."""


class FallbackModel:
    """An ordered list of models. Falls back only while nothing of an answer has been shown; then the session stays
    with the model that answered, in every lane. The reply names the model that gave it."""

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise UsageError("a fallback list needs at least one model")
        self._models = tuple(models)
        self._chosen: OrderedDict[str, int] = OrderedDict()

    @property
    def info(self) -> ModelInfo:
        """What the first of the list can do."""
        return self._models[0].info

    @property
    def models(self) -> tuple[Model, ...]:
        return self._models

    def chosen(self, session: str) -> Model:
        """The model that this session's next request goes to first."""
        return self._models[self._chosen.get(session, 0)]

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        """As each model does. The failure that is given in the end is that of the last one tried."""
        for at in range(self._chosen.get(request.session, 0), len(self._models)):
            failure: Failure | None = None
            shown = False
            answers = self._models[at].stream(request)
            try:
                async for answer in answers:
                    if isinstance(answer, Failure):
                        failure = answer
                        break
                    if isinstance(answer, Reply):
                        self._stay(request.session, at)
                    shown = shown or bool(answer)
                    yield answer
            finally:
                close = getattr(answers, "aclose", None)
                if close is not None:
                    await close()
            if failure is None:
                return
            if shown or failure.kind not in FALLS_BACK or at == len(self._models) - 1:
                yield failure
                return

    def _stay(self, session: str, at: int) -> None:
        if not session or at == self._chosen.get(session, 0):
            return
        self._chosen[session] = at
        self._chosen.move_to_end(session)
        while len(self._chosen) > SESSIONS_MAX:
            self._chosen.popitem(last=False)

    async def close(self) -> None:
        for model in self._models:
            await model.close()
