"""The conformance kit for stores: what every `Store` must do, as named checks that run against any of them.

@pytest.mark.parametrize("check", applicable(MyStore.CAPABILITIES), ids=lambda check: check.name)
async def test_my_store(check, tmp_path):
    await check.run(StoreCase(lambda: MyStore.open(tmp_path), MyStore.CAPABILITIES))
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.store.base import Capabilities

from . import durable_checks, inbox_checks, log_checks, room_checks, transfer_checks
from .case import Check, CheckFunction, StoreCase, Writer

__all__ = ["CHECKS", "Capabilities", "Check", "StoreCase", "Writer", "applicable"]


def _named(functions: Iterable[CheckFunction], *needs: str) -> tuple[Check, ...]:
    return tuple(Check(function.__name__, function, needs) for function in functions)


CHECKS: tuple[Check, ...] = (
    *_named(log_checks.CHECKS),
    *_named(inbox_checks.CHECKS),
    *_named(room_checks.CHECKS),
    *_named(transfer_checks.CHECKS),
    *_named(durable_checks.DURABLE_CHECKS, "durable"),
    *_named(durable_checks.MULTI_PROCESS_CHECKS, "multi_process"),
)


def applicable(capabilities: Capabilities) -> list[Check]:
    """The checks that a store with these capabilities must pass: no others are run, none is skipped."""
    return [check for check in CHECKS if check.applies(capabilities)]
