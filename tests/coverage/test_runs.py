"""The coverage table is joined with committed logs of real runs: what it claims can be followed to a record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from dev import coverage, evidence, places
from dev.runs.record import SCENARIOS, play

from windlass.events.base import Event
from windlass.events.stored import codec
from windlass.events.values.failures import Failure
from windlass.kernel import log
from windlass.runtime.operate.session_import import import_session
from windlass.store.base import Key
from windlass.store.memory import MemoryStore
from windlass.store.transfer.format import Entry
from windlass.testing.invariants import Checker

PAGE = Path(coverage.FOLDER).parents[1] / "docs" / "events.md"
LOGS = sorted(
    path.stem
    for path in evidence.FOLDER.glob("*.jsonl")
    if path.stem != evidence.RAISED and not path.stem.endswith(evidence.LIVE)
)
CLOCKED = re.compile(r"(duration_ms|first_output_ms|delay_ms|capped_by_budget|limit=time)\b")
"""Places that depend on how quick a machine is: 0, their default, on a quick one, or passed over on a slow one."""


def lines_of(name: str) -> list[bytes]:
    exported = (evidence.FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    return [line for line in exported if line.startswith(b'{"seq":')]


@pytest.mark.parametrize("system", coverage.SYSTEMS)
def test_what_counts_as_produced_is_in_a_committed_log(system):
    claims = [(name, claim) for row in coverage.rows(system) for name, claim in coverage.claims(row)]
    unproved = [f"{name}: no committed run holds {claim.unproved}" for name, claim in claims if claim.unproved]
    assert not unproved, "produce it in dev/runs, or say planned or drop:\n" + "\n".join(unproved)
    assert all(claim.proofs for _, claim in claims if claim.standing == "produced")


def proofs_on_the_page() -> list[tuple[str, evidence.Proof]]:
    """What the page says and the records that it names for it, as a reader finds them."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = line.split(" | ")
        for log_name, number in re.findall(r"`([^`:]+):(\d+)`", cells[-1]) if len(cells) == 3 else ():
            found.append((cells[1], evidence.Proof(log_name, int(number))))
    return found


def test_every_proof_on_the_page_leads_to_a_record_that_shows_what_is_said_there():
    on_page = proofs_on_the_page()
    assert len(on_page) > 800
    wrong = sorted({f"{proof} does not show {here}" for here, proof in on_page if not shows(here, proof)})
    assert wrong == []


def shows(here: str, proof: evidence.Proof) -> bool:
    """Whether a record holds one of the places that a cell of the page names."""
    found = evidence.record_at(proof)
    if isinstance(found, Entry):
        return bool(found.index if "IndexRow" in here else found.waiting)
    return any(holds(place, found) for place in re.findall(r"`([^`]+)`", here))


def holds(place: str, found: object) -> bool:
    """Whether a record holds a place, found anew without the index of `evidence`."""
    where, condition, word = places.parts(place)
    head, _, path = where.partition("#")
    assert isinstance(found, msgspec.Struct)
    if isinstance(found, evidence.Raised):
        return where == evidence.ERRORS + found.error and (condition is None or evidence.meets(condition, found))
    if head in places.tags():
        steps = path.split(".") if path else []
        is_meant = type(found) is places.tags()[head] and (condition is None or evidence.meets(condition, found))
        return is_meant and evidence.holds(found, steps, word)
    name, _, path = where.partition(".")
    inside = list(structs_below(found))
    of_class = [each for each in inside if name in {cls.__name__ for cls in type(each).__mro__}]
    if of_class:
        meant = [each for each in of_class if condition is None or evidence.meets(condition, each)]
        return any(evidence.holds(each, path.split(".") if path else [], word) for each in meant)
    if name == "FailureClass":  # computed from the kind
        return word in {each.failure_class for each in inside if isinstance(each, Failure)}
    if word:  # a word of a named set: somebody says it there
        return word in str(msgspec.to_builtins(found))
    return type(found).__name__ == "SessionStarted"  # computed from any record


def structs_below(value: msgspec.Struct) -> Iterator[msgspec.Struct]:
    yield value
    for name in value.__struct_fields__:
        for inner in evidence.structs_in(getattr(value, name)):
            yield from structs_below(inner)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("model.replied[lane=compact]#usage", {"lane": "compact"}),
        ("Failure[kind=total_timeout].duration_ms", {"kind": "total_timeout"}),
        ("hook.ruled#ruling[outcome=timed_out].message", {"outcome": "timed_out"}),
        (
            "windlass.events.errors.UsageError[did=place a guard where there is nothing to stop]",
            {"did": "place a guard where there is nothing to stop", "error": "UsageError"},
        ),
    ],
)
def test_what_is_said_of_one_kind_is_proved_by_a_record_of_that_kind(place, shown):
    """A reply to the main lane was the proof of what a summary costs, and any failure that of a failed sign-in."""
    proof = evidence.committed().proof(place)
    assert proof is not None
    found = structs_below(evidence.record_at(proof))
    assert any({name: getattr(each, name, None) for name in shown} == shown for each in found)


def test_a_kind_that_no_run_holds_is_not_proved():
    runs = evidence.Evidence(only={"absent"})
    assert runs.proof("model.replied#usage") is not None
    assert runs.proof("model.replied[lane=compact]#usage") is None
    assert runs.proof("windlass.events.errors.UsageError[did=pour tea]") is None


def test_the_counts_are_those_that_the_page_shows():
    page = PAGE.read_text(encoding="utf-8")
    for system in coverage.SYSTEMS:
        found = coverage.counts(system)
        assert f"| {system} | {found['produced']} | {found['planned']} | {found['dropped']} |" in page
        names = sum(1 + len(row.fields) for row in coverage.rows(system))
        assert sum(found.values()) == names


@pytest.mark.parametrize("name", LOGS)
def test_a_committed_log_verifies_and_keeps_the_rules(name):
    report = log.verify(lines_of(name))
    assert report.sound, report.problems
    checker = Checker()
    for line in lines_of(name):
        for event in codec.decode(line).events:
            assert isinstance(event, Event)
            checker.feed(event)


@pytest.mark.parametrize("name", LOGS)
async def test_a_committed_log_is_imported_and_opens(name):
    store = MemoryStore()

    async def exported():
        for line in (evidence.FOLDER / f"{name}.jsonl").read_bytes().splitlines(keepends=True):
            yield line

    await import_session(store, exported(), session=name)
    lines = [sealed.data async for sealed in store.log.read(Key("default", name))]
    assert log.fold_lines(lines).seq == codec.decode(lines[-1]).last_seq


@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_a_run_still_produces_what_its_committed_log_proves(name, tmp_path):
    stage = await play(name, tmp_path / "stage")
    stage.keep(tmp_path / "kept")
    then, now = evidence.Evidence(only=set(stage.logs)), evidence.Evidence(tmp_path / "kept")
    wanted = {
        place
        for system in coverage.SYSTEMS
        for row in coverage.rows(system)
        for text in (row.to, *row.mapped.values())
        for place in coverage.places_of(text)
        if not place.startswith("windlass.") and not CLOCKED.search(place)
    }
    lost = sorted(place for place in wanted if then.proof(place) is not None and now.proof(place) is None)
    assert lost == [], "a mend is needed, or the runs are recorded again: python -m dev.runs.record"
    committed = [msgspec.json.decode(line, type=evidence.Raised) for line in raised_lines()]
    assert {each.error for each in stage.raised} <= {each.error for each in committed}


def raised_lines() -> list[bytes]:
    return (evidence.FOLDER / f"{evidence.RAISED}.jsonl").read_bytes().splitlines()
