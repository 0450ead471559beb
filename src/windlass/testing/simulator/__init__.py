"""A deterministic world for the real runtime: one seed decides the order of everything, every fault and every answer.

    from windlass.testing.simulator import simulate
    simulate(42)

Drives `Runtime`, `Driver` and `Owner` through their ports and store; it holds no copy of them.
"""

from __future__ import annotations

from .run import STEPS_MIN, Finding, SimFailure, simulate

__all__ = ["STEPS_MIN", "Finding", "SimFailure", "simulate"]
