"""Sessions whose owners were lost while they worked: what one of them does may be what ends a process, and those beside
it with it. They are taken up after all others and one at a time, so that it shows which one it is."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.kernel.parts.losses import got_further
from windlass.store.base import IndexRow, Key

from .ports import Ports
from .slot_table import Slots

HEAD_START_MS = 2_000
"""How long the next one waits for what was taken up before it to get further, or to come to rest."""


class Suspects:
    """Those that wait to be taken up; the one that has lost the fewest owners comes first."""

    def __init__(self, slots: Slots, ports: Ports) -> None:
        self._slots = slots
        self._ports = ports
        self._waiting: dict[Key, int] = {}
        self._tried: Key | None = None
        self._next_ms = 0

    def apart(self, rows: Iterable[IndexRow]) -> list[Key]:
        """The sessions among these that may be taken up at once; the others wait here for their turn."""
        clear: list[Key] = []
        for row in rows:
            key = Key(row.tenant, row.session)
            slot = self._slots.get(key)
            if slot is not None and (slot.driven is not None or slot.died):
                continue  # it is driven, or will be when its time comes
            if row.losses:
                self._waiting[key] = row.losses
            else:
                clear.append(key)
        if clear:
            self._wait()
        return clear

    def next(self) -> Key | None:
        """The one whose turn it is, if any is."""
        if not self._waiting or not (self._ports.monotonic_ms() >= self._next_ms or self._has_shown()):
            return None
        self._tried = min(self._waiting, key=self._waiting.__getitem__)
        del self._waiting[self._tried]
        self._wait()
        return self._tried

    def _wait(self) -> None:
        self._next_ms = self._ports.monotonic_ms() + HEAD_START_MS

    def _has_shown(self) -> bool:
        """Whether the one that was taken up last is not the one that ends processes, or has come to rest."""
        if self._tried is None:
            return False
        driven = self._slots.driven_at(self._tried)
        return driven is None or not driven.at_work or (not driven.owner.busy and got_further(driven.owner.state))
