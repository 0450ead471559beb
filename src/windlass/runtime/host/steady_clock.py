"""The time of this process: the wall clock, but never behind the time that has passed since the process began.

A clock that is set back is not believed, since what has passed is known; one that is set forward is, since nobody can
tell that from a machine that slept. See decision 020.
"""

from __future__ import annotations

from .ports import Ports


class SteadyClock:
    """One for each runtime. Leases are not judged by it: processes must agree on those, and they share the wall
    clock."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._began_ms = ports.now_ms() - ports.monotonic_ms()

    def now_ms(self) -> int:
        return max(self._ports.now_ms(), self._began_ms + self._ports.monotonic_ms())

    def both_ms(self) -> tuple[int, int]:
        """The same with the clock that only goes forward, which is read once for the two."""
        monotonic_ms = self._ports.monotonic_ms()
        return max(self._ports.now_ms(), self._began_ms + monotonic_ms), monotonic_ms

    def monotonic_ms(self) -> int:
        return self._ports.monotonic_ms()
