"""The models of an agent besides its own: those that were given as such, and those opened by their names."""

from __future__ import annotations

from windlass.events.values.models import ModelRef
from windlass.models.base import Model, ModelInfo


class OtherModels:
    """Models that a session of an agent may be changed to, or that write its summaries. Closes those it has opened;
    one that was given is its giver's to close."""

    def __init__(self) -> None:
        self._given: dict[str, Model] = {}
        self._opened: dict[str, Model] = {}

    def give(self, model: Model) -> None:
        """Makes a model known under its own name."""
        self._given[model.info.name] = model

    def named(self, name: str) -> Model:
        """The model of that name, opened if nobody gave it. Raises `UsageError` for a name that means nothing."""
        model = self._given.get(name) or self._opened.get(name)
        if model is None:
            from windlass.models.catalogue.names import open_model

            model = self._opened[name] = open_model(name)
        return model

    async def close(self) -> None:
        for model in self._opened.values():
            await model.close()


def summary_model(wanted: str | Model | None, own: Model, others: OtherModels) -> ModelRef | None:
    """The model that is to write summaries, if an agent names one. Raises `UsageError` for an unknown name."""
    if wanted is None:
        return None
    if not isinstance(wanted, str):
        others.give(wanted)
        return reference(wanted.info)
    return reference((own if wanted == own.info.name else others.named(wanted)).info)


def reference(info: ModelInfo) -> ModelRef:
    """A model as the kernel must know it."""
    return ModelRef(
        name=info.name,
        provider=info.provider,
        model=info.model,
        window_tokens=info.window_tokens,
        max_output_tokens=info.max_output_tokens or 16_384,
        price=info.price,
    )
