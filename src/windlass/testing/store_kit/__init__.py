"""The conformance kit for stores: what every `Store` must do, as named checks that run against any of them, grouped by
the part that makes the promise.

@pytest.mark.parametrize("check", applicable(MyStore.CAPABILITIES), ids=lambda check: check.name)
async def test_my_store(check, tmp_path):
    await check.run(StoreCase(lambda: MyStore.open(tmp_path), MyStore.CAPABILITIES))
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.store.base import Capabilities

from . import (
    blob_checks,
    durable_checks,
    fork_checks,
    inbox_checks,
    index_checks,
    lease_checks,
    log_checks,
    store_checks,
    transaction_checks,
    transfer_checks,
)
from .case import Check, CheckFunction, StoreCase, Writer

__all__ = ["CHECKS", "Capabilities", "Check", "StoreCase", "Writer", "applicable"]


def _named(part: str, functions: Iterable[CheckFunction], *needs: str) -> tuple[Check, ...]:
    return tuple(Check(part, function.__name__, function, needs) for function in functions)


CHECKS: tuple[Check, ...] = (
    *_named("log", log_checks.CHECKS),
    *_named("log", fork_checks.CHECKS),
    *_named("inbox", inbox_checks.CHECKS),
    *_named("leases", lease_checks.CHECKS),
    *_named("index", index_checks.CHECKS),
    *_named("blobs", blob_checks.CHECKS),
    *_named("transaction", transaction_checks.CHECKS),
    *_named("store", store_checks.CHECKS),
    *_named("store", transfer_checks.CHECKS),
    *_named("store", durable_checks.DURABLE_CHECKS, "durable"),
    *_named("store", durable_checks.MULTI_PROCESS_CHECKS, "multi_process"),
)
"""Every promise, by part: one of the five, the transaction over them, or the store as a whole."""


def applicable(capabilities: Capabilities, part: str | None = None) -> list[Check]:
    """The checks that a store with these capabilities must pass, of one part or of all: no others are run, none is
    skipped."""
    return [check for check in CHECKS if check.applies(capabilities) and part in (None, check.part)]
