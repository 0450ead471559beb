"""Budgets: warned of, and stopped at."""

from __future__ import annotations

from typing import Literal

from .base import Decision, Nat


class BudgetWarned(Decision, frozen=True, kw_only=True, tag="budget.warned"):
    """A share of a limit is used up. Said once per limit and scope."""

    limit: Literal["tokens", "money", "turns", "calls", "time"]
    scope: Literal["run", "session"]
    used: Nat
    allowed: Nat

    @property
    def fraction(self) -> float:
        return min(1.0, self.used / self.allowed) if self.allowed else 1.0


class BudgetStopped(Decision, frozen=True, kw_only=True, tag="budget.stopped"):
    """A limit would be passed by going on; the run stops, after one wrap-up turn if that fits."""

    limit: Literal["tokens", "money", "turns", "calls", "time", "price"]
    scope: Literal["run", "session"]
    used: Nat
    allowed: Nat
    wrap_up: bool = False
    asks: bool = False
    """Whether the session, a child, asks for more first: it goes on if that is granted."""
