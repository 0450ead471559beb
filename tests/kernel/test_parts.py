"""The parts: their tables are the registry, each keeps to its own slice, and a new one lives among the others."""

from __future__ import annotations

import ast
import importlib
import pathlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

import windlass.kernel
from tests.kernel.session import ASK_PAY, Session, call, setup
from windlass.events.base import Decision, Fact
from windlass.events.commands import PromptBody, PromptReceived, QueueChanged
from windlass.events.errors import NotLegal, Refused
from windlass.events.runs import InterruptReceived, RunStarted
from windlass.events.sessions import SessionForked, SessionResumed, SessionStarted
from windlass.events.stored.registry import DECISIONS, EVENTS, FACTS
from windlass.events.values.blocks import Text
from windlass.kernel import parts
from windlass.kernel.effects import Effect
from windlass.kernel.fold import evolve
from windlass.kernel.owed import needs, next_wake_ms, opens, owed, waiting_for
from windlass.kernel.part import Open, Part, Reserved, Row, assemble
from windlass.kernel.parts import budgets
from windlass.kernel.parts.tools import calls
from windlass.kernel.phases import STARTED
from windlass.kernel.state import State
from windlass.kernel.step import step

KERNEL = pathlib.Path(windlass.kernel.__file__).parent
HEADER = ("session_id", "parent_id", "root_id", "scope", "depth", "seq", "now_ms", "epoch", "started_ms")
CHANGING = {"append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "setdefault"}


# --- the tables ---


def test_every_event_stands_in_exactly_one_part():
    assert set(parts.TABLES.owner) == set(EVENTS)
    assert set(parts.TABLES.facts) == set(FACTS)
    assert {kind for part in parts.PARTS for kind in part.decisions} == set(DECISIONS)


def test_an_event_that_two_parts_claim_is_refused():
    twice = Part(name="twice", decisions={RunStarted: None})
    with pytest.raises(ValueError, match="RunStarted belongs to runs and to twice"):
        assemble((*parts.PARTS, twice))


def test_every_module_that_is_a_part_is_listed_under_its_name():
    found = {}
    for module in pkgutil.walk_packages(parts.__path__, f"{parts.__name__}."):
        part = getattr(importlib.import_module(module.name), "PART", None)
        if part is not None:
            found[module.name.rpartition(".")[2]] = part
    assert {name: part.name for name, part in found.items()} == {name: name for name in found}
    assert sorted(found) == sorted(part.name for part in parts.PARTS)


def test_every_part_draws_what_it_does():
    for module in pkgutil.walk_packages(parts.__path__, f"{parts.__name__}."):
        imported = importlib.import_module(module.name)
        if hasattr(imported, "PART"):
            assert "──" in (imported.__doc__ or "") or "   " in (imported.__doc__ or ""), module.name


def test_a_call_can_come_to_every_status():
    reached = {after for _, after in calls.MOVES.values()}
    assert reached | {"requested", "closed"} == set(get_args(calls.CallStatus))
    assert {before for froms, _ in calls.MOVES.values() for before in froms} <= reached | {"requested"}


def test_the_parts_may_be_imported_in_any_order():
    names = [module.name for module in pkgutil.walk_packages(parts.__path__, f"{parts.__name__}.")]
    names += ["windlass.kernel.state", "windlass.kernel.step", "windlass.kernel.part", "windlass.kernel.owed"]
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    for loaded in [m for m in sys.modules if m.startswith('windlass.kernel')]: del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the slices ---


def slices() -> dict[str, str]:
    """The fields of the state that are slices, and the module that declares each."""
    hints = {field.name: field.type for field in msgspec.structs.fields(State)}
    return {name: hints[name].__module__ for name in hints if name not in (*HEADER, "phase")}


def root_of(node: ast.AST, aliases: dict[str, str]) -> str | None:
    """The slice that an expression lies in, seen through subscripts, attributes and local names for it."""
    chain: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            chain.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    if node.id == "state" and chain:
        return chain[-1]
    return aliases.get(node.id)


def local_names(function: ast.AST) -> dict[str, str]:
    """Local variables that stand for a slice or for something mutable in one."""
    names: dict[str, str] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = (
                zip(target.elts, node.value.elts, strict=True)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(target, node.value)]
            )
            for name, value in pairs:
                root = root_of(value, names)
                if isinstance(name, ast.Name) and isinstance(value, ast.Attribute) and root is not None:
                    names[name.id] = root
    return names


def changes_in(function: ast.AST) -> Iterator[tuple[str, int]]:
    """The slices that a function changes: by assignment, deletion, or a call that changes a table."""
    aliases = local_names(function)
    for node in ast.walk(function):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Assign):
            for target in node.targets:
                targets += target.elts if isinstance(target, ast.Tuple) else [target]
        elif isinstance(node, ast.AugAssign):
            targets.append(node.target)
        elif isinstance(node, ast.Delete):
            targets += node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            targets.append(node.func)
        for changed in targets:
            root = root_of(changed, aliases) if isinstance(changed, ast.Attribute | ast.Subscript) else None
            if root is not None:
                yield root, getattr(changed, "lineno", 0)


def trespasses(name: str, source: str) -> list[str]:
    owners = {**slices(), **dict.fromkeys(HEADER, "windlass.kernel.parts.session")}
    allowed = {"windlass.kernel.fold": {"seq", "now_ms"}, "windlass.kernel.log": {"seq"}}
    found = []
    for function in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]:
        for slice_name, line in changes_in(function):
            owner = owners.get(slice_name, name)
            if owner != name and slice_name not in allowed.get(name, ()):
                found.append(f"{name}:{line}: state.{slice_name} belongs to {owner}: use one of its verbs")
    return found


def test_a_slice_is_changed_in_its_own_module_only():
    found = []
    for path in sorted(KERNEL.rglob("*.py")):
        name = ".".join(("windlass", "kernel", *path.relative_to(KERNEL).with_suffix("").parts))
        found += trespasses(name, path.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "state.run.stop = 'budget'",
        "state.turn.here += 1",
        "del state.asks.open['p1']",
        "state.queue.steering.append(3)",
        "here = state.requests; here.attempts = 0",
        "open_asks = state.asks.open; open_asks.pop('p1')",
    ],
)
def test_a_change_of_a_foreign_slice_is_found(line):
    assert trespasses("windlass.kernel.parts.timers", f"def f(state):\n    {line}\n")


def test_every_slice_is_declared_by_a_part():
    modules = {module.name for module in pkgutil.walk_packages(parts.__path__, f"{parts.__name__}.")}
    assert set(slices().values()) <= modules


# --- a part that nobody has heard of ---


class BellHung(Fact, frozen=True, kw_only=True, tag="bell.hung"):
    """Somebody hung up a bell."""

    bell_id: str


class BellRang(Decision, frozen=True, kw_only=True, tag="bell.rang"):
    """A new owner rang a bell."""

    bell_id: str


class BellTaken(Decision, frozen=True, kw_only=True, tag="bell.taken"):
    """A bell was taken down."""

    bell_id: str
    why: str


class Bells(msgspec.Struct, kw_only=True):
    """The bells that hang, and what was heard."""

    open: dict[str, int] = {}
    rings: int = 0
    runs: int = 0


class WithBells(State, kw_only=True):
    bells: Bells = msgspec.field(default_factory=Bells)


class RingBell(Effect, frozen=True, kw_only=True):
    """Ring a bell."""


def bell_hung(state: Any, event: BellHung) -> None:
    state.bells.open[event.bell_id] = state.seq


def bell_rang(state: Any, event: BellRang) -> None:
    state.bells.rings += 1


def bell_taken(state: Any, event: BellTaken) -> None:
    del state.bells.open[event.bell_id]


def run_started(state: Any, event: RunStarted) -> None:
    state.bells.runs += 1


def check_hung(state: Any, fact: BellHung) -> None:
    if fact.bell_id in state.bells.open:
        raise Refused("twice", "it hangs already")


def stop(state: Any, why: str) -> Any:
    for name in list(state.bells.open):
        yield BellTaken(bell_id=name, why=why)


def taken_over(state: Any, fact: SessionResumed) -> Any:
    for name in state.bells.open:
        yield BellRang(bell_id=name)


BELLS = Part(
    name="bells",
    facts={BellHung: Row(when=STARTED, check=check_hung, fold=bell_hung)},
    decisions={BellRang: bell_rang, BellTaken: bell_taken},
    hears={RunStarted: run_started},
    owes=lambda state: [RingBell(effect_id=name) for name in state.bells.open],  # type: ignore[attr-defined, misc]
    opens=lambda state: [
        Open(kind="bell", open_id=name, by="people" if name == "door" else "time", seq=seq, at_ms=seq + 100)
        for name, seq in state.bells.open.items()  # type: ignore[attr-defined]
    ],
    stop=stop,
    taken_over=taken_over,
    needs=lambda state: state.bells.open.values(),  # type: ignore[attr-defined]
    works=lambda state: bool(state.bells.open),  # type: ignore[attr-defined]
    reserves=lambda state: Reserved(tokens=10 * len(state.bells.open)),  # type: ignore[attr-defined]
)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> WithBells:
    monkeypatch.setattr(parts, "TABLES", assemble((*parts.PARTS, BELLS)))
    state = WithBells()
    step(state, SessionStarted(command_id="start", session_id="s1", epoch=1, setup=setup()), 1_000)
    return state


def hang(state: WithBells, name: str = "b1") -> list[Any]:
    return step(state, BellHung(bell_id=name), state.now_ms)


def prompt(state: WithBells) -> list[Any]:
    body = PromptBody(content=(Text(text="hello"),))
    return step(state, PromptReceived(command_id="k1", body=body), state.now_ms)


def test_a_new_part_is_folded_checked_and_asked_like_the_others(state):
    before = budgets.held(state)
    hang(state)
    assert [thing.open_id for thing in opens(state)] == ["b1"]
    assert [effect.effect_id for effect in owed(state)] == ["b1"]
    assert (2 in set(needs(state)), next_wake_ms(opens(state))) == (True, 102)
    assert budgets.held(state).tokens - before.tokens == 10
    with pytest.raises(Refused, match="it hangs already"):
        hang(state)
    with pytest.raises(NotLegal, match=r"bell.taken is not legal in Idle"):
        evolve(state, BellTaken(bell_id="none", why=""))


def test_a_new_part_hears_of_other_parts_and_its_time_counts(state):
    hang(state)
    prompt(state)
    assert state.bells.runs == 1
    step(state, BellHung(bell_id="b2"), state.now_ms + 700)
    assert state.budget.spent.active_ms == 700


def test_a_new_part_is_stopped_with_the_rest(state):
    hang(state)
    prompt(state)
    events = step(state, InterruptReceived(command_id="k2"), state.now_ms)
    assert BellTaken(bell_id="b1", why="interrupted") in events
    assert (state.bells.open, opens(state)) == ({}, [])


def test_a_new_part_is_stopped_in_a_session_at_rest(state):
    hang(state)
    events = step(state, InterruptReceived(command_id="k2"), state.now_ms)
    assert BellTaken(bell_id="b1", why="cancelled") in events
    assert (opens(state), state.active) == ([], False)


def test_a_session_at_rest_waits_for_what_a_new_part_asks_of_people(state):
    hang(state, "door")
    assert waiting_for(state) == ("door",)
    events = prompt(state)
    assert [event for event in events if isinstance(event, QueueChanged)] == [
        QueueChanged(operation="queued", prompt_ids=("i3",))
    ]
    events = step(state, InterruptReceived(command_id="k2"), state.now_ms)
    assert BellTaken(bell_id="door", why="interrupted") in events


def test_a_new_part_is_taken_over_by_a_new_owner(state):
    hang(state)
    events = step(state, SessionResumed(epoch=2), state.now_ms)
    assert (events[1:], state.bells.rings) == ([BellRang(bell_id="b1")], 1)


def test_a_new_part_is_not_carried_into_a_fork(state):
    hang(state)
    fork = SessionForked(session_id="s2", epoch=1, origin_id="s1", at_seq=2, origin_hash="h")
    events = step(state, fork, state.now_ms)
    assert BellTaken(bell_id="b1", why="not_carried_over") in events
    assert opens(state) == []


# --- what is asked over the list is what the old lists said ---


def test_what_is_open_says_who_must_do_something():
    session = Session(policy=ASK_PAY)
    session.prompt()
    assert [(thing.kind, thing.by) for thing in opens(session.state)] == [("model", "us")]
    session.reply("", call("pay"), call("add", ordinal=1), call("wait", {"for_ms": 1_000}, ordinal=2))
    assert [(thing.kind, thing.by) for thing in opens(session.state)] == [
        ("timer", "time"),
        ("tool", "us"),
        ("permission", "people"),
    ]
