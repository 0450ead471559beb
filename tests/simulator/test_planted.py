"""Bugs planted on purpose: the rig, unchanged, must find each within its sweep. A rig that stays green proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from windlass.events.codec import decode_command
from windlass.events.hooks import HookRuling
from windlass.kernel import context
from windlass.kernel.state import State
from windlass.runtime import driving
from windlass.runtime.binding import Bound
from windlass.runtime.driver import Driver
from windlass.runtime.owner import Owner
from windlass.runtime.performer import Done, Performer
from windlass.runtime.runtime import Runtime
from windlass.store import ledger
from windlass.store.base import Key
from windlass.testing.simulator import SimFailure, simulate
from windlass.testing.simulator.store import SimStore
from windlass.tools.tool import AnyTool

SEEDS_MAX = 1_000
ANY = ""
"""Where one bug breaks several rules, and which one first is chance."""


def first_failure() -> SimFailure:
    """What the first seed that finds something wrong says."""
    for seed in range(SEEDS_MAX):
        try:
            simulate(seed)
        except SimFailure as failure:
            return failure
    raise AssertionError(f"{SEEDS_MAX} seeds have found nothing wrong")


def acknowledges_before_it_keeps(patch: pytest.MonkeyPatch) -> None:
    keeps = SimStore._append

    async def append(self: SimStore, *given: Any) -> None:
        task = asyncio.get_running_loop().create_task(keeps(self, *given))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    patch.setattr(SimStore, "_append", append)


def acknowledges_commands_before_they_are_taken(patch: pytest.MonkeyPatch) -> None:
    sends = Runtime.send

    async def send(self: Runtime, *given: Any) -> None:
        task = asyncio.get_running_loop().create_task(sends(self, *given))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    patch.setattr(Runtime, "send", send)


def drops_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "judge_epoch", lambda *given: None)


def skips_the_seq_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "judge_next", lambda *given: None)


def loses_a_command_in_the_inbox(patch: pytest.MonkeyPatch) -> None:
    reads = ledger.Ledger.inbox

    def inbox(self: ledger.Ledger, limit: int) -> Any:
        found = reads(self, limit)
        if len(found) > 1:
            self.waiting.pop(found[-1].command_id)
        return found[:-1] if len(found) > 1 else found

    patch.setattr(ledger.Ledger, "inbox", inbox)


def loses_a_queued_command(patch: pytest.MonkeyPatch) -> None:
    folds = Driver.fold_inbox

    async def fold_inbox(self: Driver) -> int:
        waiting = await self.owner.store.inbox(self.owner.key)
        if len(waiting) > 1:
            both = (waiting[0].command_id, waiting[1].command_id)
            await self._report(decode_command(waiting[0].data), takes=both)
        return await folds(self)

    patch.setattr(Driver, "fold_inbox", fold_inbox)


def forgets_an_outcome_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    settles = Driver._settle

    async def settle(self: Driver, effect: Any, done: Any) -> None:
        if isinstance(done, Done) and len(self._flying) > 1 and "/" in effect.effect_id:
            return
        await settles(self, effect, done)

    patch.setattr(Driver, "_settle", settle)


def begins_effects_before_their_intent_is_kept(patch: pytest.MonkeyPatch) -> None:
    async def settled(self: Owner) -> None:
        if self.stale and not self._lock.locked():
            await self.load()

    async def may_begin(self: Performer, owed: Callable[[], bool]) -> bool:
        return owed()

    patch.setattr(Owner, "busy", property(lambda self: False))
    patch.setattr(Owner, "settled", settled)
    patch.setattr(Performer, "_may_begin", may_begin)


def begins_effects_after_its_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Owner, "in_lease", property(lambda self: True))


def trusts_memory_after_a_failed_append(patch: pytest.MonkeyPatch) -> None:
    appends = Owner._append

    async def append(self: Owner, *given: Any) -> None:
        try:
            await appends(self, *given)
        except BaseException:
            self.stale = False
            raise

    patch.setattr(Owner, "_append", append)


def never_looks_for_sessions_that_nobody_drives(patch: pytest.MonkeyPatch) -> None:
    async def notice(self: Runtime) -> None:
        for active in list(self._active.values()):
            active.driver.look()

    patch.setattr(Runtime, "_notice", notice)


def takes_changed_code_for_the_recorded_one(patch: pytest.MonkeyPatch) -> None:
    def tool(self: Bound, state: State, name: str) -> AnyTool | None:
        return (self.tools.get(name) or self.attached.named(name)) if name in state.tools else None

    patch.setattr(Bound, "tool", tool)
    patch.setattr(driving, "present", lambda bound, state, attached: tuple(state.tools.values()))


def goes_on_by_what_the_code_said_before(patch: pytest.MonkeyPatch) -> None:
    resumes = Runtime._resumed
    patch.setattr(Runtime, "_resumed", lambda *given: msgspec.structs.replace(resumes(*given), terms=None))


def goes_on_one_record_too_late_after_a_cursor(patch: pytest.MonkeyPatch) -> None:
    finds = Runtime.seq_of

    async def seq_of(self: Runtime, key: Key, after: str | int | None) -> int:
        return await finds(self, key, after) + isinstance(after, str)

    patch.setattr(Runtime, "seq_of", seq_of)


def lets_pass_what_a_broken_guard_was_to_judge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HookRuling, "denies", property(lambda self: self.outcome == "denied"))


def forgets_what_is_pinned(patch: pytest.MonkeyPatch) -> None:
    cuts = context._kept

    def kept(state: State, *given: Any) -> Any:
        pinned, state.pinned = state.pinned, {}
        try:
            return cuts(state, *given)
        finally:
            state.pinned = pinned

    patch.setattr(context, "_kept", kept)


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (acknowledges_before_it_keeps, ANY),
        (acknowledges_commands_before_they_are_taken, "acknowledged is kept"),
        (drops_the_epoch_check, "a stale writer never lands"),
        (skips_the_seq_check, "no gaps"),
        (loses_a_command_in_the_inbox, "acknowledged is kept"),
        (loses_a_queued_command, "has no end"),
        (forgets_an_outcome_of_a_batch, ANY),
        (begins_effects_before_their_intent_is_kept, ANY),
        (begins_effects_after_its_lease, "no effects after the lease"),
        (trusts_memory_after_a_failed_append, ANY),
        (never_looks_for_sessions_that_nobody_drives, "not at an end"),
        (takes_changed_code_for_the_recorded_one, "the code that runs is the one on record"),
        (goes_on_by_what_the_code_said_before, "code's"),
        (goes_on_one_record_too_late_after_a_cursor, "a stream has no gaps"),
        (lets_pass_what_a_broken_guard_was_to_judge, "what a hook stopped does not run"),
        (forgets_what_is_pinned, "pinned stays verbatim"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_is_found(plant, rule, monkeypatch):
    plant(monkeypatch)
    failure = first_failure()
    assert f"windlass sim {failure.seed} --trace" in str(failure)
    assert rule in str(failure)
