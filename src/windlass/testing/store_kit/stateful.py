"""A store against a model of it: hypothesis draws calls, legal and not, and the store must answer as a few dictionaries
would. Needs hypothesis, which is imported with this module only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as draw
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from windlass.events.errors import CommandTaken, LeaseHeld, NotFound, SeqConflict, StaleEpoch, UsageError, WindlassError
from windlass.events.stored import record
from windlass.events.stored.record import GENESIS, Sealed
from windlass.store.base import LEASE_MS_MAX, Holder, InboxCommand, IndexRow, Key, Origin, Query, Sent, Store
from windlass.store.chain import history, verify_chain

from .case import StoreCase, seal_after

KEYS = [Key("t1", "a"), Key("t1", "b"), Key("t1", "c"), Key("t2", "a")]
COMMANDS = [f"c{i}" for i in range(8)]
RUNNERS = ["r1", "r2"]
TTL_MS = 100
AHEAD_MS = 10 * LEASE_MS_MAX

# Most calls go to one session, so that it gets somewhere.
keys = draw.sampled_from([KEYS[0]] * 4 + KEYS)
command_ids = draw.sampled_from(COMMANDS)
pauses = draw.integers(0, 150) | draw.sampled_from([LEASE_MS_MAX - 100, LEASE_MS_MAX])


class Model:
    """One session as it should be."""

    def __init__(self, origin: Origin | None, inherited: list[Sealed]) -> None:
        self.origin = origin
        self.inherited = inherited
        self.lines: list[Sealed] = []
        self.epoch = inherited[-1].epoch if inherited else 0
        self.owner = ""
        self.until_ms = 0
        self.seen: tuple[int, str, int, int] | None = None
        """The lease that reached too far ahead when it was last claimed in vain, and when it did so first."""
        self.waiting: list[str] = []
        self.taken: set[str] = set()
        self.row: IndexRow | None = None

    def believed_ms(self, now_ms: int) -> int:
        """Until when the lease counts."""
        met = self.seen is not None and self.seen[:3] == (self.epoch, self.owner, self.until_ms)
        return min(self.until_ms, (self.seen[3] if met and self.seen else now_ms) + LEASE_MS_MAX)

    def holder(self, now_ms: int) -> Holder | None:
        until_ms = self.believed_ms(now_ms)
        return Holder(runner=self.owner, epoch=self.epoch, until_ms=until_ms) if until_ms > now_ms else None

    @property
    def end(self) -> tuple[int, str]:
        whole = self.inherited + self.lines
        return (whole[-1].last_seq, whole[-1].hash) if whole else (0, GENESIS)


class StoreMachine(RuleBasedStateMachine):
    """Subclassed by `check_against_model`, which says what store it is about."""

    make_case: Callable[[], StoreCase]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.models: dict[Key, Model] = {}
        self.now_ms = 1_000

    @initialize()
    def begin(self) -> None:
        self.case = self.make_case()
        self.store: Store = self.loop.run(self.stack.enter_async_context(self.case.open()))
        self.create(KEYS[0])
        self.claim(KEYS[0], RUNNERS[0], False, 0, 0)

    def teardown(self) -> None:
        self.loop.run(self.stack.aclose())
        self.loop.close()

    def answer(self, coroutine: Any) -> Any:
        """What the store answers: a value, or the kind of its refusal."""
        try:
            return self.loop.run(coroutine)
        except WindlassError as error:
            return type(error)

    # --- calls

    @rule(key=keys)
    def create(self, key: Key) -> None:
        model = self.models.get(key)
        wanted = True if model is None else False if model.origin is None else UsageError
        assert self.answer(self.store.log.create(key)) is wanted
        self.models.setdefault(key, Model(None, []))

    @rule(key=keys, source=keys, part=draw.floats(0, 1))
    def fork(self, key: Key, source: Key, part: float) -> None:
        above = self.models.get(source)
        whole = above.inherited + above.lines if above else []
        if key in self.models or key.tenant != source.tenant or key == source or not whole:
            return
        shared = whole[: 1 + int(part * (len(whole) - 1))]
        origin = Origin(session=source.session, seq=shared[-1].last_seq, hash=shared[-1].hash)
        assert self.answer(self.store.log.create(key, origin=origin)) is True
        self.models[key] = Model(origin, shared)

    @rule(
        key=keys,
        runner=draw.sampled_from(RUNNERS),
        renew=draw.booleans(),
        pause_ms=pauses,
        ahead_ms=draw.sampled_from([0, 0, 0, AHEAD_MS]),
    )
    def claim(self, key: Key, runner: str, renew: bool, pause_ms: int, ahead_ms: int) -> None:
        """With `ahead_ms`, by a runner whose clock is so far ahead."""
        self.now_ms += pause_ms
        now_ms = self.now_ms + ahead_ms
        answer = self.answer(self.store.leases.claim(key, runner=runner, ttl_ms=TTL_MS, now_ms=now_ms, renew=renew))
        model = self.models.get(key)
        if model is None:
            assert answer is NotFound
        elif model.owner != runner and (until_ms := model.believed_ms(now_ms)) > now_ms:
            assert answer is LeaseHeld
            lease = (model.epoch, model.owner, model.until_ms)
            model.seen = (*lease, until_ms - LEASE_MS_MAX) if until_ms < model.until_ms else None
        else:
            model.epoch += 0 if renew and model.owner == runner else 1
            model.owner, model.until_ms = runner, now_ms + TTL_MS
            assert (answer.epoch, answer.until_ms) == (model.epoch, model.until_ms)
            assert (answer.head.seq, answer.head.hash) == model.end

    @rule(key=keys, runner=draw.sampled_from(RUNNERS))
    def release(self, key: Key, runner: str) -> None:
        model = self.models.get(key)
        answer = self.answer(self.store.leases.release(key, runner=runner, epoch=model.epoch if model else 1))
        assert answer is (None if model else NotFound)
        if model and model.owner == runner:
            model.until_ms = 0

    @rule(
        key=keys,
        events=draw.integers(1, 3),
        epoch_off=draw.sampled_from([0, 0, 0, 0, -1, 1]),
        seq_off=draw.sampled_from([0, 0, 0, 0, -1, 1]),
        wrong_hash=draw.sampled_from([False, False, False, True]),
        takes=draw.lists(command_ids, max_size=2),
        indexed=draw.booleans(),
    )
    def append(
        self, key: Key, events: int, epoch_off: int, seq_off: int, wrong_hash: bool, takes: list[str], indexed: bool
    ) -> None:
        model = self.models.get(key)
        seq, chain = model.end if model else (0, GENESIS)
        seq = max(0, seq + seq_off)
        previous = record.digest_text(b"x") if wrong_hash else chain
        epoch = max(0, (model.epoch if model else 1) + epoch_off)
        # Bodies name their session: equal appends in two sessions would have one hash, and the model could not tell.
        bodies = [
            b'{"n":%d,"of":"%s/%s"}' % (seq + i, key.tenant.encode(), key.session.encode()) for i in range(events)
        ]
        sealed = seal_after(seq, previous, epoch, bodies)
        row = IndexRow(session=key.session, tenant=key.tenant, seq=sealed.last_seq, updated_ms=sealed.last_seq)
        answer = self.answer(self.store.log.append(key, sealed, takes=takes, index=row if indexed else None))
        if model is None:
            assert answer is NotFound
        elif epoch != model.epoch or not model.owner:
            assert answer is StaleEpoch
        elif (seq, previous) != model.end:
            assert answer is SeqConflict
        elif len(set(takes)) < len(takes) or set(takes) & model.taken:
            assert answer is CommandTaken
        else:
            assert answer is None
            model.lines.append(sealed)
            model.taken |= set(takes)
            model.waiting = [waits for waits in model.waiting if waits not in takes]
            model.row = row if indexed else model.row

    @rule(key=keys, skip=draw.integers(0, 2), count=draw.integers(0, 2))
    def work(self, key: Key, skip: int, count: int) -> None:
        """An owner's ordinary append: legal, and it takes some of what waits."""
        model = self.models.get(key)
        takes = model.waiting[skip : skip + count] if model else []
        self.append(key, 1, 0, 0, False, takes, True)

    @rule(key=keys, ids=draw.lists(command_ids, min_size=1, max_size=3))
    def send(self, key: Key, ids: list[str]) -> None:
        for command_id in ids:
            answer = self.answer(self.store.inbox.send(key, InboxCommand(command_id=command_id, at_ms=1, data=b"{}")))
            model = self.models.get(key)
            if model is None:
                assert answer is NotFound
                return
            known = command_id in model.waiting or command_id in model.taken
            assert answer == Sent(new=not known, taken=command_id in model.taken)
            if not known:
                model.waiting.append(command_id)

    @rule(key=keys, part=draw.floats(0, 1))
    def erase(self, key: Key, part: float) -> None:
        model = self.models.get(key)
        if model is None or not model.lines:
            return
        place = int(part * (len(model.lines) - 1))
        line = model.lines[place]
        assert self.answer(self.store.log.erase(key, line.last_seq, by="x", why="y", at_ms=1)) is None
        erased = record.erase(line.data, line.last_seq, by="x", why="y", at_ms=1)
        model.lines[place] = _with_data(line, erased)
        for other in self._heirs(key):
            other.inherited = [_with_data(each, erased) if each.hash == line.hash else each for each in other.inherited]

    @rule(key=keys)
    def delete(self, key: Key) -> None:
        model = self.models.get(key)
        answer = self.answer(self.store.log.delete(key))
        if model is None:
            assert answer is NotFound
        elif self._forks(key):
            assert answer is UsageError
        else:
            assert answer is None
            del self.models[key]

    @rule(key=keys)
    def detach(self, key: Key) -> None:
        model = self.models.get(key)
        assert self.answer(self.store.log.detach(key)) is (None if model else NotFound)
        if model:
            model.lines, model.inherited, model.origin = model.inherited + model.lines, [], None

    @rule()
    def reopen(self) -> None:
        if self.case.capabilities.durable:
            self.loop.run(self.stack.aclose())
            self.stack = AsyncExitStack()
            self.store = self.loop.run(self.stack.enter_async_context(self.case.open()))
            for model in self.models.values():
                model.seen = None

    # --- what must hold after each

    def _forks(self, key: Key) -> list[str]:
        return sorted(
            other.session
            for other, model in self.models.items()
            if other.tenant == key.tenant and model.origin and model.origin.session == key.session
        )

    def _heirs(self, key: Key) -> list[Model]:
        """The sessions that read this one's lines as their own history; a detached copy is none of them."""
        heirs = []
        for name in self._forks(key):
            fork = Key(key.tenant, name)
            heirs += [self.models[fork], *self._heirs(fork)]
        return heirs

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        if hasattr(self, "store"):
            self.loop.run(self._compare())

    async def _compare(self) -> None:
        for key in KEYS:
            model = self.models.get(key)
            head = await self.store.log.head(key)
            if model is None:
                assert head is None
                continue
            assert head is not None
            assert (head.seq, head.hash, head.epoch, head.origin) == (*model.end, model.epoch, model.origin)
            assert [line async for line in history(self.store, key)] == model.inherited + model.lines
            assert [command.command_id for command in await self.store.inbox.waiting(key)] == model.waiting
            assert {take.command_id for take in await self.store.inbox.taken(key)} == model.taken
            assert await self.store.index.get(key) == model.row
            assert await self.store.leases.holder(key, now_ms=self.now_ms) == model.holder(self.now_ms)
            assert await self.store.log.forks(key) == self._forks(key)
            await verify_chain(self.store, key)
        for tenant in ("t1", "t2"):
            rows = {row.session: row for row in await self.store.index.find(Query(tenant=tenant))}
            assert rows == {k.session: m.row for k, m in self.models.items() if k.tenant == tenant and m.row}


def _with_data(line: Sealed, data: bytes) -> Sealed:
    return Sealed(
        first_seq=line.first_seq,
        last_seq=line.last_seq,
        at_ms=line.at_ms,
        epoch=line.epoch,
        prev_hash=line.prev_hash,
        hash=line.hash,
        data=data,
    )


def check_against_model(
    make_case: Callable[[], StoreCase], *, examples: int = 50, steps: int = 40, shrink: bool = True
) -> None:
    """Runs the machine; `make_case` must give an empty store each time. Raises hypothesis' report of the shortest
    sequence of calls that the store answers otherwise (the first found, without `shrink`)."""

    machine = type("Machine", (StoreMachine,), {"make_case": staticmethod(make_case)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            phases=[phase for phase in Phase if shrink or phase not in (Phase.shrink, Phase.explain)],
        ),
    )
