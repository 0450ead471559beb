"""Names of models: `provider:model` in this protocol, `provider/model` here."""

from __future__ import annotations

from typing import get_args, get_type_hints

from windlass.events.errors import UsageError
from windlass.events.values.items import ModelSettings

_HINT = get_type_hints(ModelSettings)["thinking"]
LEVELS: tuple[str, ...] = tuple(level for kind in get_args(_HINT) for level in get_args(kind))
"""How much a model may be asked to think."""


def read_model(name: str) -> str:
    """A model as it is called here. Both forms are understood."""
    provider, colon, model = name.partition(":")
    return f"{provider}/{model}" if colon and "/" not in provider else name


def model_form(name: str) -> str:
    """A model as it is called there."""
    return name.replace("/", ":", 1)


def read_level(level: str) -> str:
    """How much the model is to think. Raises `UsageError` for what no model is asked for."""
    if level not in LEVELS:
        raise UsageError(f"start.options.thinkingLevel: {level[:40]!r}: there are {', '.join(LEVELS)}")
    return level
