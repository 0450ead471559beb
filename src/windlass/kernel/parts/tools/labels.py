"""Labels: what is untrusted or private among the things that the model has seen, and what that keeps it from.

a call begins, its result, a prompt, a page, a signal, the start ──▶ met ──▶ labels.joined ──▶ held, for good
labels.declassified: a person takes a label away, with a reason          (held ──▶ cleared)

    untrusted input ─┐
    private data    ─┼─▶ the call that brings the last of them together is asked about, in whatever order they came;
    a way out       ─┘   so is each later call that leads out

A label is never taken away by a rewind, a summary or a cut: what the model has seen, it has seen. What a call's tool
says of its results holds from the moment that the call begins, so that nothing that runs beside it slips through.
A quarantined session only reads, and nobody can change that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.sessions import SessionForked, SessionImported, SessionResumed, SessionStarted
from windlass.events.tools.labels import LabelsDeclassified, LabelsJoined, Provenance
from windlass.events.values.label_words import UNTRUSTED, is_private, is_untrusted, sound, word
from windlass.events.values.policy import Trait
from windlass.events.values.tools import ToolSpec
from windlass.kernel.part import Decisions, Part, Row
from windlass.kernel.parts import queue
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.parts.tools.calls import Call
    from windlass.kernel.state import State


HELD_MAX = 128
"""Beyond so many labels only the words of further ones are kept, without their names."""
REASON_CHARS_MAX = 1_000
QUARANTINED = f"{UNTRUSTED}:quarantine"
IMPORTED = f"{UNTRUSTED}:import"
BY_KIND: dict[str, tuple[str, ...]] = {"mcp": (f"{UNTRUSTED}:mcp",)}
"""What results are marked with whatever their tool says of itself."""


class Labels(msgspec.Struct, kw_only=True, gc=False):
    """What the session carries on, each label with what brought it first."""

    held: dict[str, Provenance] = {}
    met: dict[str, Provenance] = {}
    """What counts already and is not told yet."""
    cleared: dict[str, Provenance] = {}
    """What a person has taken away."""
    way_out: Provenance | None = None
    """The first call that could send something out."""
    quarantined: bool = False


# --- what is asked of it ------------------------------------------------------------------------------------------


def current(state: State) -> frozenset[str]:
    """The labels of all that the model has seen, but for those that a person has taken away."""
    return frozenset((*state.labels.held, *state.labels.met))


def told(state: State) -> tuple[str, ...]:
    """The same in order, for whoever takes up what the session says."""
    return tuple(sorted((*state.labels.held, *state.labels.met)))


def provenance(state: State, label: str) -> Provenance | None:
    """What brought a label that the session has."""
    here = state.labels
    return here.held.get(label) or here.met.get(label)


def brought(spec: ToolSpec, by_call: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What the result of a call will be marked with, as far as is known before it begins."""
    return (*spec.labels, *by_call, *BY_KIND.get(spec.kind, ()))


def leads_out(spec: ToolSpec, traits: tuple[Trait, ...] | None) -> bool:
    """Whether a call can send something out."""
    return "egress" in (spec.traits if traits is None else traits)


def joins(state: State, spec: ToolSpec, by_call: tuple[str, ...], traits: tuple[Trait, ...] | None) -> tuple[str, ...]:
    """The labels that a call would bring together with a way out; none if untrusted input, private data or the way out
    is missing, if they are together already and the call leads nowhere, or if the policy does not mind."""
    here = state.labels
    if state.gate.policy.trifecta == "allow" or not (here.held or here.met or brought(spec, by_call)):
        return ()
    now = current(state)
    after = now.union(map(sound, brought(spec, by_call)))
    legs = [label for label in after if is_untrusted(label) or is_private(label)]
    if not (any(map(is_untrusted, legs)) and any(map(is_private, legs))):
        return ()
    last_leg = state.labels.way_out is not None and not (any(map(is_untrusted, now)) and any(map(is_private, now)))
    return tuple(sorted(legs)) if leads_out(spec, traits) or last_leg else ()


def joins_of(state: State, call: Call) -> tuple[str, ...]:
    """The same for a call that was judged and has not begun."""
    spec = state.toolset.tools.get(call.tool)
    return joins(state, spec, call.labels, call.traits) if spec is not None else ()


def outdated(state: State, call: Call) -> bool:
    """Whether a call would bring together what nobody agreed to when it was judged; or whether people are asked about
    something that it does not do any more."""
    if not call.joins and not state.labels.held and not state.labels.met:
        return False
    now = joins_of(state, call)
    if call.status == "asked":
        return now != call.joins
    grant = state.gate.grants.get(call.granted_by) if call.granted_by is not None else None
    return not set(now) <= set(call.joins) and not (grant is not None and grant.trifecta)


def objection(state: State, labels: Iterable[str], spec: ToolSpec, traits: tuple[Trait, ...] | None) -> str:
    """What speaks against a call that joins the labels with a way out, in the words of a request."""
    told = chain(state, labels, spec, traits)
    return f"this would bring untrusted input, private data and a way out together: {told}"


def chain(state: State, labels: Iterable[str], spec: ToolSpec, traits: tuple[Trait, ...] | None) -> str:
    """Where each of the labels and the way out come from, for the person who decides."""
    ordered_labels = sorted(labels, key=lambda label: (word(label), label))
    told = [_since(provenance(state, label), label) for label in ordered_labels]
    out = state.labels.way_out
    way = "this call leads out" if out is None or leads_out(spec, traits) else _since(out, "a way out")
    return f"{'; '.join(told)}; {way}"


def _since(origin: Provenance | None, label: str) -> str:
    if origin is None:
        return f"{label} by this call"
    return f"{label} since {origin.source}{f' ({origin.tool})' if origin.tool else ''}"


# --- verbs --------------------------------------------------------------------------------------------------------


def meet(state: State, labels: Iterable[str], source: str, tool: str = "") -> None:
    """Something that carries labels reaches the session with the event being folded now."""
    here = state.labels
    for given_label in labels:
        label = sound(given_label)
        if len(here.held) + len(here.met) >= HELD_MAX:
            label = word(label)
        if label not in here.held and label not in here.met:
            here.met[label] = Provenance(label=label, source=source, seq=state.seq, tool=tool)


def begun(state: State, call: Call) -> None:
    """A call begins with the event being folded now: what its tool says of its results holds from here on."""
    spec = state.toolset.tools.get(call.tool)
    if spec is None:
        return
    if state.labels.way_out is None and leads_out(spec, call.traits):
        out = Provenance(label="egress", source=call.call_id, seq=state.seq, tool=call.tool)
        state.labels.way_out = out
    if spec.labels or call.labels or spec.kind in BY_KIND:
        meet(state, brought(spec, call.labels), call.call_id, call.tool)


def joined(state: State) -> Decisions:
    """Tells what was met since it was told last."""
    if state.labels.met:
        yield LabelsJoined(labels=tuple(state.labels.met.values()))


# --- fold ---------------------------------------------------------------------------------------------------------


def labels_joined(state: State, event: LabelsJoined) -> None:
    here = state.labels
    for origin in event.labels:
        here.met.pop(origin.label, None)
        here.held.setdefault(origin.label, origin)


def labels_declassified(state: State, event: LabelsDeclassified) -> None:
    here = state.labels
    for label in event.labels:
        origin = here.met.pop(label, None) or here.held.pop(label)
        here.cleared[label] = origin
    while len(here.cleared) > HELD_MAX:
        del here.cleared[next(iter(here.cleared))]


def session_started(state: State, event: SessionStarted) -> None:
    if event.labels:
        meet(state, event.labels, "start")
    if event.setup.quarantine or event.setup.options.quarantine:
        quarantine(state)


def session_resumed(state: State, event: SessionResumed) -> None:
    if event.options is not None and event.options.quarantine:
        quarantine(state)


def session_forked(state: State, event: SessionForked) -> None:
    if event.held is not None and event.held.quarantine:
        quarantine(state)


def session_imported(state: State, event: SessionImported) -> None:
    """A log from elsewhere brings no authority along: what people took away there is back, and it is untrusted."""
    if event.moved:
        return
    here = state.labels
    for label, origin in here.cleared.items():
        if label not in here.held and label not in here.met:
            here.met[label] = origin
    here.cleared = {}
    meet(state, (IMPORTED,), "import")


def quarantine(state: State) -> None:
    """From here on the session only reads, and what it says is untrusted."""
    state.labels.quarantined = True
    meet(state, (QUARANTINED,), "start")


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_declassified(state: State, fact: LabelsDeclassified) -> None:
    check_free(state, "a label cannot be taken away")
    held = current(state)
    gone = [label for label in fact.labels if label not in held]
    if gone or not fact.labels:
        there = ", ".join(sorted(held)) or "none"
        raise Refused("not_there", f"no label {', '.join(gone) or 'is named'}: the session has {there}")
    if not fact.reason.strip() or len(fact.reason) > REASON_CHARS_MAX:
        raise Refused("malformed", f"say why a label is taken away, in at most {REASON_CHARS_MAX} characters")


def check_free(state: State, otherwise: str) -> None:
    """Raises `Refused` if the session is quarantined."""
    if state.labels.quarantined:
        raise Refused("quarantined", f"{otherwise}: the session is quarantined, for good")


def on_declassified(state: State, fact: LabelsDeclassified) -> Decisions:
    yield queue.done(fact.command_id)


PART = Part(
    name="labels",
    facts={
        LabelsDeclassified: Row(when=STARTED, check=check_declassified, fold=labels_declassified, then=on_declassified),
    },
    decisions={LabelsJoined: labels_joined},
    hears={
        SessionStarted: session_started,
        SessionResumed: session_resumed,
        SessionForked: session_forked,
        SessionImported: session_imported,
    },
)
