"""What tests of agents need, shipped: scripted and recorded models, the model server, the store kit, the simulator.

Importing it defines names and nothing else; each is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_PLACES = {
    "Capabilities": "windlass.store.base",
    "Ledger": "windlass.testing.effect_ledger",
    "ModelServer": "windlass.testing.model_server",
    "RecordedModel": "windlass.testing.recorded",
    "RecordingModel": "windlass.testing.recorded",
    "ScriptedModel": "windlass.testing.scripted",
    "StoreCase": "windlass.testing.store_kit",
    "applicable": "windlass.testing.store_kit",
    "by_history": "windlass.testing.scripted",
    "call": "windlass.testing.scripted",
    "fail": "windlass.testing.scripted",
    "hang": "windlass.testing.scripted",
    "pause": "windlass.testing.scripted",
    "think": "windlass.testing.scripted",
    "turn": "windlass.testing.scripted",
}

if TYPE_CHECKING:
    from windlass.store.base import Capabilities

    from .effect_ledger import Ledger
    from .model_server import ModelServer
    from .recorded import RecordedModel, RecordingModel
    from .scripted import ScriptedModel, by_history, call, fail, hang, pause, think, turn
    from .store_kit import StoreCase, applicable

__all__ = [
    "Capabilities",
    "Ledger",
    "ModelServer",
    "RecordedModel",
    "RecordingModel",
    "ScriptedModel",
    "StoreCase",
    "applicable",
    "by_history",
    "call",
    "fail",
    "hang",
    "pause",
    "think",
    "turn",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'windlass.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
