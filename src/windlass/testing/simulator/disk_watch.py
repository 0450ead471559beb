"""Watches the disk: holds every append, every effect and every acknowledgement against what must always hold.

It keeps its own fold of each log, made from the bytes that were kept, and never asks the runtime what it believes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.base import Command, Event
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.context import ContextPagedOut
from windlass.events.runs import Terminal
from windlass.events.sessions import SessionResumed
from windlass.events.stored import codec
from windlass.events.stored.record import GENESIS, Sealed
from windlass.events.tools.calls import (
    CallBody,
    PreparedBody,
    ToolDelegated,
    ToolPrepared,
    ToolReconsidered,
    ToolRequested,
    ToolStarted,
)
from windlass.events.turns import ModelFailed, ModelReplied, ModelRequested, OutputExtracted
from windlass.kernel import log
from windlass.kernel.owed import overview
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.models.base import Request
from windlass.runtime.context.archive_page import Page
from windlass.runtime.owner.index_row import SUMS_EVERY_MS
from windlass.runtime.streams.record import Record
from windlass.store.base import IndexRow, Key, Origin, Snapshot
from windlass.testing.carried_labels import Carried
from windlass.testing.invariants import Broken, Checker, check_items
from windlass.tools.context import ToolContext

from .flows.laws import FlowLaws
from .hard_places import count_append
from .laws import Before, Passed, check_append, check_labels, check_terms
from .loop import Actor
from .machines.laws import MachineLaws
from .tools import Effects
from .trees.laws import TreeLaws
from .trees.talk_laws import TalkLaws

if TYPE_CHECKING:
    from .world import World

LOOKED_FOR_BY = ("state", "owed", "next_wake_ms", "waiting_for", "agent", "title", "metadata", "root", "parent")
SUMMED = ("updated_ms", "input_tokens", "output_tokens", "cost_nanos")
"""The fields of an index row that others search, and those that they only read."""


class Log:
    """One session as it is on the disk."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.state = State()
        self.checker = Checker()
        self.appends: list[codec.Appended] = []
        self.lines: list[bytes] = []
        self.events: list[Event] = []
        self.hash = GENESIS
        self.starts: set[tuple[str, int, int]] = set()
        self.requests: dict[str, int] = {}
        self.answered: set[str] = set()
        self.ended: set[str] = set()
        self.asked_epoch: dict[str, int] = {}
        self.versions: dict[tuple[str, int, int], str] = {}
        """The digest of the tool that each start is about."""
        self.given: dict[str, Any] = {}
        """What each call was given, as it was judged."""
        self.wished: dict[str, Any] = {}
        """What each call was made with, before hooks saw it."""
        self.passed = Passed()
        self.carried = Carried()
        self.fits = False
        """Whether the last answer is one of the output type."""
        self.delegated: set[str] = set()
        self.paged_out: set[int] = set()
        self.erased: set[int] = set()
        self.index: IndexRow | None = None
        """The row that was kept with an append last."""
        self.forked_from: tuple[State, str, int] | None = None
        self.origins: list[tuple[str, int]] = []
        """The sessions that this one continues, and how much of each is its own."""

    def add(self, append: codec.Appended) -> None:
        """Folds an append and takes notes."""
        started = [event for event in append.events if isinstance(event, ToolStarted)]
        for event in append.events:
            assert isinstance(event, Event)
            self.checker.feed(event)
            self.carried.feed(event)
            self.events.append(event)
            match event:
                case ToolStarted():
                    self.starts.add((event.call_id, event.epoch, event.attempt))
                case ToolRequested(body=CallBody(args=dict(args))):
                    self.given[event.call_id] = self.wished[event.call_id] = args.get("n")
                case ToolReconsidered():
                    self.given[event.call_id] = self.wished.get(event.call_id)
                case ToolPrepared(changed=True, body=PreparedBody(args=dict(args))):
                    self.given[event.call_id] = args.get("n")
                case ToolDelegated():
                    self.delegated.add(event.call_id)
                case ContextPagedOut():
                    self.paged_out.update(ref.seq for ref in event.refs)
                case ModelRequested():
                    self.requests[event.request_id] = event.epoch
                case ModelReplied() | ModelFailed():
                    self.answered.add(event.request_id)
                    if event.lane == "main" and isinstance(event, ModelReplied):
                        self.fits = False
                case OutputExtracted():
                    self.fits = True
                case Terminal():
                    self.ended.update(event.commands)
                case CommandCompleted() | CommandRefused():
                    self.ended.add(event.command_id)
        self.appends.append(append)
        self.hash = append.hash
        log.fold_append(self.state, append)
        for event in started:
            call = self.state.calls.by_id.get(event.call_id)
            spec = self.state.toolset.tools.get(call.tool) if call is not None else None
            if spec is not None:
                self.versions[event.call_id, event.epoch, event.attempt] = spec.digest

    def shares(self, origin: Key, seq: int) -> bool:
        """Whether a record of another session is one of this one's too."""
        return any(at >= seq for session, at in self.origins if session == origin.session)


class Watch:
    """Follows all logs of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.logs: dict[Key, Log] = {}
        self.epochs: dict[Key, int] = {}
        self.owners: dict[Key, Actor] = {}
        self.effects = Effects()
        self.trees = TreeLaws(world)
        self.talks = TalkLaws(world)
        self.flows = FlowLaws(world)
        self.machines = MachineLaws(world)
        self.acknowledged: dict[Key, dict[str, str]] = {}
        self.appends = 0

    def _hold(self, rule: str, holds: bool, detail: str) -> None:
        if not holds:
            self._world.fail(Broken(rule, self._world.steps, detail))

    # --- the log ---

    def created(self, key: Key, origin: Origin | None) -> None:
        session_log = self.logs[key] = Log(key)
        self.epochs[key] = 0
        if origin is None:
            return
        before = self.logs[Key(key.tenant, origin.session)]
        session_log.origins = [(origin.session, origin.seq)]
        session_log.origins += [(session, min(at, origin.seq)) for session, at in before.origins]
        session_log.erased = {seq for seq in before.erased if seq <= origin.seq}
        for append in before.appends:
            if append.last_seq <= origin.seq:
                session_log.add(append)
        session_log.forked_from = (log.copy(session_log.state), session_log.hash, session_log.state.seq)
        if before.state.active:
            self._world.reached("fork_while_running")

    def claimed(self, actor: Actor, key: Key, epoch: int) -> None:
        before = self.owners.get(key)
        if before is not None and before is not actor and not before.dead:
            self._world.reached("two_owners")
        self._hold("epochs rise", epoch >= self.epochs[key], f"{key.session}: {epoch} after {self.epochs[key]}")
        self.epochs[key] = epoch
        self.owners[key] = actor

    def committed(self, actor: Actor, key: Key, sealed: Sealed, takes: Any, index: IndexRow | None, epoch: int) -> None:
        """An append was kept."""
        session_log = self.logs[key]
        self.appends += 1
        try:
            self._judge(actor, session_log, sealed, index)
        except Exception as error:
            self._world.fail(error)
        self._world.trace(actor, f"kept {key.session} {sealed.first_seq}..{sealed.last_seq}", session_log, sealed)

    def _judge(self, actor: Actor, session_log: Log, sealed: Sealed, index: IndexRow | None) -> None:
        name = session_log.key.session
        epoch = self.epochs[session_log.key]
        self._hold("a stale writer never lands", sealed.epoch == epoch, f"{name}: {sealed.epoch}, now {epoch}")
        self._hold("no gaps", sealed.first_seq == session_log.state.seq + 1, f"{name}: {sealed.first_seq}")
        self._hold("one chain", sealed.prev_hash == session_log.hash, f"{name} at {sealed.first_seq}")
        append = codec.decode(sealed.data)
        count_append(self._world, actor, session_log, append)
        before = Before(session_log.state)
        session_log.lines.append(sealed.data)
        session_log.add(append)
        session_log.checker.rest(session_log.state)
        check_append(session_log.state, before, append, fits=session_log.fits)
        session_log.passed.check_append(session_log.state, append)
        check_labels(session_log.state, session_log.carried)
        for laws in (self.trees, self.talks, self.flows, self.machines):
            laws.appended(session_log, append)
        if isinstance(append.events[0], SessionResumed) and session_log.state.parent_id is None:
            check_terms(session_log.state, self._world.agent_of(actor))
        self._judge_index(session_log, index)

    def _judge_index(self, session_log: Log, index: IndexRow | None) -> None:
        """What sessions are looked for by is always true; sums may be a little old while a run goes on."""
        given, session_log.index = index, index or session_log.index
        if session_log.index is None:
            return
        view, wrong = overview(session_log.state), []
        exact = given is not None or not session_log.state.active
        for field in (*LOOKED_FOR_BY, *(SUMMED if exact else ())):
            if getattr(view, field) != getattr(session_log.index, field):
                wrong.append(field)
        if view.updated_ms - session_log.index.updated_ms >= SUMS_EVERY_MS:
            wrong.append("updated_ms")
        self._hold("the index says what the log says", not wrong, f"{session_log.key.session}: {wrong}")

    def snapshot(self, key: Key, snapshot: Snapshot) -> None:
        """A snapshot is what the log adds up to at its place."""
        session_log = self.logs[key]
        if snapshot.seq == session_log.state.seq:
            self._hold("a snapshot is the fold", snapshot.data == log.dump(session_log.state), key.session)
            self._hold("a snapshot names its hash", snapshot.hash == session_log.hash, key.session)

    def compare(self, key: Key, state: State) -> None:
        """What an owner believes after an append is what the log adds up to."""
        session_log = self.logs[key]
        if state.seq == session_log.state.seq:
            same = log.dump(state) == log.dump(session_log.state)
            self._hold("the fold is the live state", same, f"{key.session} at {state.seq}")

    # --- effects ---

    def model_asked(self, actor: Actor, request: Request) -> None:
        """A request goes out: its intent must be kept and open, its history one that every provider takes."""
        session_log = self.logs[Key(self._world.tenant, request.session)]
        epoch = session_log.requests.get(request.attempt)
        self._hold("intent before effect", epoch is not None, f"model request {request.attempt} of {request.session}")
        self._hold(
            "nothing is paid twice", request.attempt not in session_log.answered, f"model request {request.attempt}"
        )
        self._in_time(actor, session_log, epoch or 0, f"model request {request.attempt}")
        if (
            session_log.erased
            and request.lane == "main"
            and any(ref.seq in session_log.erased for ref in session_log.state.history.items)
        ):
            self._world.reached("erased_is_shown")
        try:
            check_items(request.items)
        except Broken as error:
            self._world.fail(error)

    def tool_began(self, actor: Actor, ctx: ToolContext, name: str, n: int, digest: str | None) -> None:
        session_log = self.logs[Key(self._world.tenant, ctx.session)]
        start = (ctx.call_id, ctx.epoch, ctx.attempt)
        where = f"{name} {ctx.call_id} of {ctx.session}, attempt {ctx.attempt}"
        self._hold("intent before effect", start in session_log.starts, where)
        wanted = session_log.given.get(ctx.call_id)
        self._hold("what was judged is what runs", wanted is None or wanted == n, f"{where}: {n}, not {wanted}")
        if digest is not None and start in session_log.versions:
            self._hold("the code that runs is the one on record", digest == session_log.versions[start], where)
        self._in_time(actor, session_log, ctx.epoch, f"{name} {ctx.call_id}")

    def served(self, actor: Actor, ctx: ToolContext) -> None:
        """A client runs a call: it was handed to clients."""
        session_log = self.logs[Key(self._world.tenant, ctx.session)]
        self._hold(
            "a client runs what clients were given", ctx.call_id in session_log.delegated, f"{ctx.tool} {ctx.call_id}"
        )
        key = (ctx.session, ctx.call_id)
        self._world.reached("served_again" if self.effects.done[key] else "served")
        self.effects.done[key] += 1

    def archived(self, key: Key, pages: Sequence[Page]) -> None:
        """An archive was given pages: they left the history before."""
        session_log = self.logs[key]
        early = [page.page_id for page in pages if not session_log.paged_out.issuperset(page.seqs)]
        self._hold("what is archived was paged out", not early, f"{key.session}: {early}")

    def _in_time(self, actor: Actor, session_log: Log, epoch: int, what: str) -> None:
        """One who was replaced may not begin anything after its lease."""
        if epoch == self.epochs[session_log.key]:
            return
        self._world.reached("stale_dispatch_in_lease")
        _, until = actor.leases.get(session_log.key, (0, 0.0))
        self._hold(
            "no effects after the lease", self._world.loop.time() <= until, f"{what} of {session_log.key.session}"
        )

    def effect(self, actor: Actor, ctx: ToolContext, name: str) -> None:
        session_log = self.logs[Key(self._world.tenant, ctx.session)]
        key = (ctx.session, ctx.call_id)
        self.effects.done[key] += 1
        if ctx.call_id in session_log.checker.once:
            most = 1 + session_log.checker.again[ctx.call_id]
            self._hold("at most once", self.effects.done[key] <= most, f"{name} {ctx.call_id} of {ctx.session}")

    def job_starts(self, session: str, job_id: str, *, before: bool) -> None:
        """A job is started on the machine: nothing was started under its id before."""
        self._hold("a job is started once", not before, f"{job_id} of {session}")

    # --- what people were told ---

    def told(self, key: Key, command: Command) -> None:
        """A command was acknowledged: it is in the log or in the inbox now."""
        self.acknowledged.setdefault(key, {})[command.command_id] = type(command).__name__
        ledger = self._world.disk.ledger(key)
        kept = command.command_id in ledger.taken or command.command_id in ledger.waiting
        self._hold("acknowledged is kept", kept, f"{type(command).__name__} {command.command_id} to {key.session}")

    def published(self, actor: Actor, key: Key, record: Record, after: int) -> None:
        """A reader was shown a record: it is in the log, and nothing between was left out."""
        session_log = self.logs[key]
        where = f"{key.session} record {record.seq} after {after}"
        self._hold("a stream has no gaps", record.seq == after + 1, where)
        self._hold("published is committed", record.seq <= session_log.state.seq, where)
        if record.seq <= session_log.state.seq and record.seq not in session_log.erased:
            self._hold("what is shown is what is kept", record.event == session_log.events[record.seq - 1], where)

    def erased(self, key: Key, data: bytes) -> None:
        """Content was erased from an append: it is gone from this log and from those that share it."""
        append = codec.decode(data)
        own = self.logs[key]
        place = next(n for n, kept in enumerate(own.appends) if kept.first_seq == append.first_seq)
        own.lines[place - len(own.appends) + len(own.lines)] = data
        for session_log in self.logs.values():
            shared = session_log.key == key or session_log.shares(key, append.last_seq)
            if shared and session_log.state.seq >= append.last_seq:
                for seq, event in enumerate(append.events, append.first_seq):
                    assert isinstance(event, Event)
                    session_log.events[seq - 1] = event
                    if event.erased is not None:
                        session_log.erased.add(seq)

    # --- at any time ---

    def nothing_lost(self) -> None:
        """What was acknowledged is in a log or an inbox."""
        for key, commands in self.acknowledged.items():
            ledger = self._world.disk.ledger(key)
            lost = [name for name in commands if name not in ledger.taken and name not in ledger.waiting]
            self._hold("acknowledged is kept", not lost, f"{key.session}: {lost}")

    def verify(self) -> None:
        """Every log holds on all three levels, folds at once to what was folded bit by bit, and renders."""
        for key, session_log in self.logs.items():
            if not session_log.lines:
                continue
            start, chain = None, GENESIS
            if session_log.forked_from is not None:
                start, chain, _ = session_log.forked_from
            report = log.verify(session_log.lines, start=start, prev_hash=chain)
            self._hold("a log verifies", not report.problems, f"{key.session}: {report.problems[:1]}")
            same = report.state is None or log.dump(report.state) == log.dump(session_log.state)
            self._hold("replay is the same", same, key.session)
            check_items(render(session_log.state, lambda seq, session_log=session_log: session_log.events[seq - 1]))  # type: ignore[misc]

    def unfinished(self) -> list[str]:
        """What is still owed, in words: empty when every command has its end and nothing is open."""
        words: list[str] = []
        for key, session_log in self.logs.items():
            if not session_log.lines:
                continue
            state, name = session_log.state, key.session
            ledger = self._world.disk.ledger(key)
            words += [f"{name}: inbox holds {command}" for command in ledger.waiting]
            if state.active:
                words.append(f"{name}: {msgspec.to_builtins(state.phase)}")
            words += [f"{name}: {prompt} waits in the queue" for prompt in state.queue.waiting]
            words += [f"{name}: call {call.call_id} ({call.tool}) is {call.status}" for call in state.open_calls()]
            words += [f"{name}: job {job} has no end" for job in state.jobs.open]
            words += self.trees.unfinished(session_log) + self.machines.unfinished(session_log)
            words += [f"{name}: timer {timer} is set" for timer in state.timers.open]
            words += [f"{name}: {change.operation} of {change.names} waits" for change in state.toolset.staged]
            words += [f"{name}: what was paged out at {seq} is not archived" for seq in state.archive.paged]
            told = self.acknowledged.get(key, {})
            words += [f"{name}: {kind} {c} has no end" for c, kind in told.items() if c not in session_log.ended]
        return words
