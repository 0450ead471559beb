"""Bugs planted on purpose: the rig, unchanged, must find each within its sweep. A rig that stays green proves nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from windlass.events.context import CompactionFinished
from windlass.events.errors import CommandTaken, Refused
from windlass.events.hooks import HookRuling
from windlass.events.stored.codec import decode_command
from windlass.events.tools.permissions import GrantsChanged
from windlass.kernel import parts
from windlass.kernel.parts.context import context_size
from windlass.kernel.parts.tools import calls, dispatch, gate, jobs, labels, verdicts
from windlass.kernel.state import State
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.drive.driver import Driver, Rested
from windlass.runtime.drive.effect_outcome import Done
from windlass.runtime.drive.jobs import Jobs
from windlass.runtime.drive.mailbox import Mailbox
from windlass.runtime.host import first_facts
from windlass.runtime.host.drive_tasks import DriveTasks
from windlass.runtime.host.store_watch import StoreWatch
from windlass.runtime.owner.held_lease import Lease
from windlass.runtime.owner.owner import Owner
from windlass.runtime.streams.cursors import Cursors
from windlass.store.base import Key
from windlass.store.rules import session_ledger
from windlass.testing.simulator import SimFailure, simulate
from windlass.testing.simulator.store import SimLog
from windlass.tools.planes.task_stops import StoppableTask
from windlass.tools.sandboxes.sandbox import Launch
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
    keeps = SimLog._append

    async def append(self: SimLog, *given: Any) -> None:
        task = asyncio.get_running_loop().create_task(keeps(self, *given))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    patch.setattr(SimLog, "_append", append)


def acknowledges_commands_before_they_are_taken(patch: pytest.MonkeyPatch) -> None:
    sends = Runtime.send

    async def send(self: Runtime, *given: Any) -> None:
        task = asyncio.get_running_loop().create_task(sends(self, *given))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    patch.setattr(Runtime, "send", send)


def drops_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session_ledger, "judge_epoch", lambda *given: None)


def skips_the_seq_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session_ledger, "judge_next", lambda *given: None)


def loses_a_command_in_the_inbox(patch: pytest.MonkeyPatch) -> None:
    reads = session_ledger.Ledger.inbox

    def inbox(self: session_ledger.Ledger, limit: int) -> Any:
        found = reads(self, limit)
        if len(found) > 1:
            self.waiting.pop(found[-1].command_id)
        return found[:-1] if len(found) > 1 else found

    patch.setattr(session_ledger.Ledger, "inbox", inbox)


def loses_a_queued_command(patch: pytest.MonkeyPatch) -> None:
    folds = Mailbox.fold_inbox

    async def fold_inbox(self: Mailbox) -> int:
        owner = self._owner
        waiting = await owner.store.inbox.waiting(owner.key)
        if len(waiting) > 1:
            both = (waiting[0].command_id, waiting[1].command_id)
            with contextlib.suppress(Refused, CommandTaken):
                await owner.take(decode_command(waiting[0].data), takes=both)
        return await folds(self)

    patch.setattr(Mailbox, "fold_inbox", fold_inbox)


def forgets_an_outcome_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    settles = Driver._settle

    async def settle(self: Driver, effect: Any, done: Any) -> None:
        if isinstance(done, Done) and len(self.flights) > 1 and "/" in effect.effect_id:
            return
        await settles(self, effect, done)

    patch.setattr(Driver, "_settle", settle)


def begins_effects_before_their_intent_is_kept(patch: pytest.MonkeyPatch) -> None:
    async def settled(self: Owner) -> None:
        if self.stale and not self._lock.locked():
            await self.load()

    async def may_begin(self: Owner, is_owed: Callable[[], bool]) -> bool:
        return is_owed()

    patch.setattr(Owner, "busy", property(lambda self: False))
    patch.setattr(Owner, "settled", settled)
    patch.setattr(Owner, "may_begin", may_begin)


def begins_effects_after_its_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "lasts", property(lambda self: True))


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
    async def notice(self: StoreWatch) -> None:
        for slot in self._slots.driven:
            if slot.driven is not None:
                slot.driven.driver.look()

    patch.setattr(StoreWatch, "_notice", notice)


def takes_changed_code_for_the_recorded_one(patch: pytest.MonkeyPatch) -> None:
    def tool(self: Bound, state: State, name: str) -> AnyTool | None:
        return (self.tools.get(name) or self.local_code.named(name)) if name in state.toolset.tools else None

    patch.setattr(Bound, "tool", tool)
    patch.setattr(first_facts, "present", lambda bound, state, local_code: tuple(state.toolset.tools.values()))


def goes_on_by_what_the_code_said_before(patch: pytest.MonkeyPatch) -> None:
    resumes = first_facts.resumed
    patch.setattr(first_facts, "resumed", lambda *given: msgspec.structs.replace(resumes(*given), terms=None))


def goes_on_one_record_too_late_after_a_cursor(patch: pytest.MonkeyPatch) -> None:
    finds = Cursors.seq_of

    async def seq_of(self: Cursors, key: Key, after: str | int | None) -> int:
        return await finds(self, key, after) + isinstance(after, str)

    patch.setattr(Cursors, "seq_of", seq_of)


def lets_pass_what_a_broken_guard_was_to_judge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HookRuling, "denies", property(lambda self: self.outcome == "denied"))


def forgets_what_is_pinned(patch: pytest.MonkeyPatch) -> None:
    cuts = context_size.kept_verbatim

    def kept(state: State, *given: Any) -> Any:
        pinned, state.history.pinned = state.history.pinned, {}
        try:
            return cuts(state, *given)
        finally:
            state.history.pinned = pinned

    patch.setattr(context_size, "kept_verbatim", kept)


def takes_what_a_tool_does_to_its_task_for_a_stop(patch: pytest.MonkeyPatch) -> None:
    def cancel(self: StoppableTask, msg: Any | None = None) -> bool:
        self.stops += 1
        return asyncio.Task.cancel(self, msg)

    patch.setattr(StoppableTask, "cancel", cancel)


def leaves_a_driver_that_died_where_it_lies(patch: pytest.MonkeyPatch) -> None:
    async def died(self: DriveTasks, slot: Any, driven: Any, error: BaseException) -> Rested:
        return Rested(status="idle")

    async def take_up_again(self: StoreWatch) -> None:
        return

    patch.setattr(DriveTasks, "_died", died)
    patch.setattr(StoreWatch, "_take_up_again", take_up_again)


def runs_again_what_may_run_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dispatch, "terms", lambda call, spec: ("idempotent", False))


def asks_the_gate_only_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdicts, "outdated", lambda state, call: ())


def starts_a_job_again_to_keep_it(patch: pytest.MonkeyPatch) -> None:
    async def keep(self: Jobs, name: str) -> None:
        await self.host.start(name, Launch(argv=("true",), cwd="/", env={}), "again")
        await self.host.keep(name)

    patch.setattr(Jobs, "keep", keep)


def forgets_jobs_with_their_owner(patch: pytest.MonkeyPatch) -> None:
    watched = jobs.owes
    owes = tuple((keeps, (lambda state: ()) if each is watched else each) for keeps, each in parts.TABLES.owes)
    patch.setattr(parts, "TABLES", msgspec.structs.replace(parts.TABLES, owes=owes))


def has_a_summary_forget_what_it_sums_up(patch: pytest.MonkeyPatch) -> None:
    folds = parts.TABLES.fold[CompactionFinished]

    def forgets(state: State, event: CompactionFinished) -> None:
        folds(state, event)
        state.labels.held.clear()

    fold: dict[Any, Any] = parts.TABLES.fold
    patch.setitem(fold, CompactionFinished, forgets)


def loses_what_a_tool_marked_its_result_with(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "marked", lambda state, event: None)


def lets_an_allow_rule_speak_of_all_three_legs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(labels, "joins", lambda *given: ())


def keeps_a_standing_approval_that_was_taken_back(patch: pytest.MonkeyPatch) -> None:
    def only_adds(state: State, event: GrantsChanged) -> None:
        gate.grants_changed(state, msgspec.structs.replace(event, revoked=()))

    fold: dict[Any, Any] = parts.TABLES.fold
    patch.setitem(fold, GrantsChanged, only_adds)


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (takes_what_a_tool_does_to_its_task_for_a_stop, "died"),
        (leaves_a_driver_that_died_where_it_lies, ANY),  # another drive begins beside what it left, or none does
        (runs_again_what_may_run_once, ANY),
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
        (asks_the_gate_only_once, ANY),
        (starts_a_job_again_to_keep_it, "a job is started once"),
        (forgets_jobs_with_their_owner, "not at an end"),
        (has_a_summary_forget_what_it_sums_up, "labels are what the events add up to"),
        (loses_what_a_tool_marked_its_result_with, "labels are what the events add up to"),
        (lets_an_allow_rule_speak_of_all_three_legs, "nothing private leaves unasked"),
        (keeps_a_standing_approval_that_was_taken_back, "a standing approval that lets pass was given and stands"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_is_found(plant, rule, monkeypatch):
    plant(monkeypatch)
    failure = first_failure()
    assert f"windlass sim {failure.seed} --trace" in str(failure)
    assert rule in str(failure)
