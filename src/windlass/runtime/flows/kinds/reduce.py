"""Reduce: a pure function of what a node needs."""

from __future__ import annotations

from .move import Move, Work, ended


def reduce(work: Work) -> Move:
    """A pure function of what it needs."""
    return ended(work, work.functions[work.node.reducer](list(work.outputs.values())))
