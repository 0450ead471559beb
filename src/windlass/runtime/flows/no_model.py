"""The model of a session that has no conversation: it is never asked."""

from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.events.values.failures import Failure, failure
from windlass.models.base import Delta, ModelInfo, Reply, Request


class NoModel:
    """Stands where a workflow has no model. All that speak are its child sessions."""

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(name="none", provider="none", model="none", max_output_tokens=1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoModel)

    def __hash__(self) -> int:
        return hash(NoModel)

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        yield failure("invalid_model", "a workflow has no model of its own")

    async def close(self) -> None:
        """Nothing was opened."""
