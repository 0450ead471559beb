"""The queue: what was said to the agent and has not entered the history yet, and how a command ends without a run.

prompt.received ─┬─▶ a run begins with it                                     (nothing runs)
                 ├─▶ steering: it enters with the next turn of the run        (busy)
                 ├─▶ queued: it waits for a run of its own                    (busy)
                 ├─▶ the run is interrupted, another begins                   (busy, on_busy = interrupt)
                 └─▶ refused                                                  (busy, on_busy = reject)
queued ──▶ taken, edited or dropped;  held after a stop, released by the next command
steering ──▶ absorbed into the history, by a turn or when the run ends first
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from windlass.events.commands import CommandCompleted, CommandRefused, PromptReceived, QueueChanged, QueueEdited
from windlass.events.errors import Refused
from windlass.events.hooks import HookRuled
from windlass.events.runs import RunStarted
from windlass.events.values.ids import prompt_id
from windlass.events.values.setup import ItemRef, RunOptions
from windlass.kernel import parts
from windlass.kernel.part import Decisions, Part, Row
from windlass.kernel.parts import retries, runs
from windlass.kernel.parts.context import history
from windlass.kernel.parts.flows import nodes
from windlass.kernel.parts.tools import labels
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import STARTED, Asked, Asleep

if TYPE_CHECKING:
    from windlass.kernel.state import State


class Input(msgspec.Struct, kw_only=True, gc=False):
    """Something said to the agent that has not entered the history yet."""

    seq: int
    kind: Literal["user", "note"]
    tokens: int = 0
    bytes: int = 0
    part: str = ""
    waits: bool = False
    """Waits for a turn that something else brings; does not bring one itself."""
    edited_seq: int | None = None
    """Where its text was rewritten while it waited."""
    command_id: str | None = None
    options: RunOptions | None = None
    labels: tuple[str, ...] = ()
    """What it is marked with."""
    trace: str = ""
    """The trace context that it came with."""


class Queue(msgspec.Struct, kw_only=True, gc=False):
    """What was said to the agent and has not entered the history yet."""

    inputs: dict[int, Input] = {}
    waiting: list[int] = []
    """The prompts that each wait for a run of their own."""
    steering: list[int] = []
    """What enters the history with the next turn."""
    held: bool = False


# --- verbs --------------------------------------------------------------------------------------------------------


def steer(state: State, given: Input, *, before: int | None = None) -> None:
    """Puts something before the model with the next turn, behind all that waits unless a place is named."""
    steering = state.queue.steering
    state.queue.inputs[given.seq] = given
    steering.insert(len(steering) if before is None else steering.index(before), given.seq)


def tell(state: State, part: str) -> None:
    """Tells the model, with the next turn, of the event being folded now."""
    steer(state, Input(seq=state.seq, kind="note", tokens=16, part=part))


def absorb(state: State, seq: int) -> None:
    """Takes an input into the history."""
    here = state.queue
    taken = here.inputs.pop(seq)
    if seq in here.steering:
        here.steering.remove(seq)
    if seq in here.waiting:
        here.waiting.remove(seq)
    if taken.labels:
        labels.meet(state, taken.labels, prompt_id(seq))
    if taken.edited_seq is not None:
        seq, taken.part = taken.edited_seq, prompt_id(seq)
    history.push(state, ItemRef(seq=seq, kind=taken.kind, tokens=taken.tokens, bytes=taken.bytes, part=taken.part))


def done(command: str, note: str = "") -> CommandCompleted:
    """The terminal of a command that needs no run."""
    return CommandCompleted(command_id=command, note=note)


def keep_inputs(state: State) -> Decisions:
    """Prompts that the run took and the model has not seen enter the history: no accepted input is lost."""
    unused = tuple(prompt_id(seq) for seq in state.queue.steering if state.queue.inputs[seq].kind == "user")
    if unused:
        yield QueueChanged(operation="absorbed", prompt_ids=unused)


def hold(state: State) -> Decisions:
    """What waits is held until somebody looks."""
    if state.queue.waiting:
        yield QueueChanged(operation="held")


def take_next(state: State) -> Decisions:
    """Opens a run for the prompt that has waited longest."""
    seq = state.queue.waiting[0]
    waiting = state.queue.inputs[seq]
    yield QueueChanged(operation="taken", prompt_ids=(prompt_id(seq),))
    command = (waiting.command_id,) if waiting.command_id is not None else ()
    yield from runs.begin(state, "prompt", command, options=waiting.options, trace=waiting.trace)


# --- fold ---------------------------------------------------------------------------------------------------------


def prompt_received(state: State, event: PromptReceived) -> None:
    if state.flow.graph is not None:
        nodes.task_received(state, event)
        return
    state.queue.inputs[state.seq] = Input(
        seq=state.seq,
        kind="user",
        tokens=event.tokens,
        bytes=event.bytes,
        command_id=event.command_id,
        options=event.options,
        labels=event.labels,
        trace=event.trace,
    )


def queue_edited(state: State, event: QueueEdited) -> None:
    for name, tokens in event.tokens.items():
        waiting = state.queue.inputs[int(name[1:])]
        waiting.tokens = tokens
        waiting.edited_seq = state.seq


def queue_changed(state: State, event: QueueChanged) -> None:
    here = state.queue
    seqs = [int(name[1:]) for name in event.prompt_ids]
    match event.operation:
        case "queued":
            here.waiting.extend(seqs)
        case "steering":
            here.steering.extend(seqs)
            for seq in seqs:
                runs.join(state, here.inputs[seq].command_id)
        case "taken":
            for seq in seqs:
                here.waiting.remove(seq)
            here.held = here.held and bool(here.waiting)
        case "absorbed":
            for seq in seqs:
                absorb(state, seq)
        case "dropped":
            for seq in seqs:
                drop(here, seq)
            here.held = here.held and bool(here.waiting)
        case "edited":
            here.waiting = seqs
        case "held":
            here.held = True
        case "released":
            here.held = False
        case _:
            assert_never(event.operation)


def drop(here: Queue, seq: int) -> None:
    here.inputs.pop(seq)
    for line in (here.waiting, here.steering):
        if seq in line:
            line.remove(seq)


def run_started(state: State, event: RunStarted) -> None:
    """The run takes up what its commands said."""
    here = state.queue
    here.held = False
    for seq, waiting in here.inputs.items():
        if waiting.command_id in event.commands and waiting.kind == "user" and seq not in here.steering:
            here.steering.append(seq)


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_prompt(state: State, fact: PromptReceived) -> None:
    child_side.check_going_on(state, fact)
    waiting = sum(given.kind == "user" for given in state.queue.inputs.values())
    if waiting >= state.setup.settings.queue_max:
        raise Refused("queue_full", f"{waiting} prompts wait already: answer or edit the queue first")
    busy = state.active or parts.awaits_somebody(state)
    if busy and fact.behavior is None and state.setup.settings.on_busy == "reject":
        raise Refused("busy", "the session is busy and takes no prompts meanwhile")
    if fact.body is None:
        raise Refused("no_content", "a prompt needs content")


def on_prompt(state: State, fact: PromptReceived) -> Decisions:
    name = prompt_id(state.seq)
    for ruling in fact.hooks:
        yield HookRuled(ruling=ruling)
    if state.flow.graph is not None:
        yield from begin_flow(state, fact)
        return
    if any(ruling.denies for ruling in fact.hooks):
        yield QueueChanged(operation="dropped", prompt_ids=(name,))
        yield done(fact.command_id, "denied by a hook")
        yield from child_side.without_task(state, fact.command_id, "a hook denied its task")
        return
    on_busy = state.setup.settings.on_busy
    steers = fact.behavior == "steer" or (fact.behavior is None and on_busy == "steer")
    replaces = fact.behavior is None and on_busy == "interrupt"
    this = (fact.command_id,)
    if state.active and replaces:
        yield from runs.interrupt(state, "superseded")
        yield from runs.begin(state, "prompt", this, options=fact.options, trace=fact.trace)
    elif state.active:
        yield QueueChanged(operation="steering" if steers else "queued", prompt_ids=(name,))
    elif parts.awaits_somebody(state) and (steers or replaces):
        yield from runs.begin(state, "prompt", this, continues=True, options=fact.options, trace=fact.trace)
        yield from runs.stop_all(state, "superseded")
    elif parts.awaits_somebody(state):
        yield QueueChanged(operation="queued", prompt_ids=(name,))
    else:
        yield from retries.drop(state)
        goes_on = isinstance(state.phase, Asleep | Asked)
        yield from runs.begin(state, "prompt", this, continues=goes_on, options=fact.options, trace=fact.trace)


def begin_flow(state: State, fact: PromptReceived) -> Decisions:
    """A workflow that is a child begins with its task."""
    if any(ruling.denies for ruling in fact.hooks):
        yield done(fact.command_id, "denied by a hook")
        yield from child_side.without_task(state, fact.command_id, "a hook denied its task")
    else:
        yield from runs.begin(state, "flow", (fact.command_id,), trace=fact.trace)


def check_edited(state: State, fact: QueueEdited) -> None:
    known = {prompt_id(seq) for seq in state.queue.waiting}
    strange = [name for name in (*fact.order, *fact.tokens) if name not in known]
    if strange or len(set(fact.order)) != len(fact.order):
        raise Refused("unknown_prompt", f"not in the queue, or named twice: {', '.join(strange) or fact.order}")
    edits = fact.body.edits if fact.body is not None else {}
    if set(edits) != set(fact.tokens):
        raise Refused("malformed", "each new text of a prompt needs its tokens, and only those")


def on_edited(state: State, fact: QueueEdited) -> Decisions:
    keep = set(fact.order)
    leaving = [seq for seq in state.queue.waiting if prompt_id(seq) not in keep]
    commands = [state.queue.inputs[seq].command_id for seq in leaving]
    if leaving:
        yield QueueChanged(operation="dropped", prompt_ids=tuple(prompt_id(seq) for seq in leaving))
    yield QueueChanged(operation="edited", prompt_ids=fact.order)
    for command in commands:
        if command is not None:
            yield done(command, "taken out of the queue")
    yield done(fact.command_id)


def on_refused(state: State, fact: CommandRefused) -> Decisions:
    yield from child_side.without_task(state, fact.command_id, f"its task was refused: {fact.message}")


def forked(state: State) -> Decisions:
    """What waited at the origin is its own."""
    waiting = tuple(prompt_id(seq) for seq, given in state.queue.inputs.items() if given.kind == "user")
    if waiting:
        yield QueueChanged(operation="dropped", prompt_ids=waiting)


def needs(state: State) -> Iterable[int]:
    return state.queue.inputs


PART = Part(
    name="queue",
    facts={
        PromptReceived: Row(when=STARTED, check=check_prompt, fold=prompt_received, then=on_prompt),
        QueueEdited: Row(when=STARTED, check=check_edited, fold=queue_edited, then=on_edited),
        CommandRefused: Row(when=STARTED, then=on_refused),
    },
    decisions={QueueChanged: queue_changed, CommandCompleted: None},
    hears={RunStarted: run_started},
    forked=forked,
    needs=needs,
)
