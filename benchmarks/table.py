"""The table that benchmarks print."""

from __future__ import annotations

NO_BOUND = float("inf")
"""For a figure that helps to read another one: on a busy machine, time spent says more than time gone by."""


def row(what: str, bare: float, ours: float, ratio: float, said: str, bound: float) -> bool:
    ok = ratio <= bound if bound > 0 else ratio >= -bound
    print(f"{what:44} {bare:12,.3f} {ours:12,.3f} {ratio:7.2f}  {said} {'ok' if ok else 'MISSED'}", flush=True)
    return ok
