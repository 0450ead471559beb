"""The follow-up queue as one list of texts: what waits becomes it."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.events.values.ids import prompt_id
from windlass.kernel.state import State
from windlass.runtime.api.session import Session
from windlass.runtime.machines.turn_state import queued_text
from windlass.runtime.streams.log_reader import LogReader

from .question_forms import ACTOR
from .turn_commands import BadCommand


async def edit(session: Session, command_id: str, *, prompts: Sequence[str]) -> None:
    """Has these prompts wait, in this order. Those that wait already stay what they are; of the others, as many as are
    left over get new words, and further ones are added behind the run that is going on. Raises `BadCommand` if none is,
    `Refused` if one was taken meanwhile."""
    if not all(prompt.strip() for prompt in prompts):
        raise BadCommand("edit_follow_up_queue: prompts: write texts that are not empty")
    state = await session.state()
    left = await _waiting(session, state)
    places: list[str | None] = [_taken(left, prompt) for prompt in prompts]
    edits: dict[str, str] = {}
    for at, prompt in enumerate(prompts):
        if places[at] is None and left:
            name = places[at] = next(iter(left))
            del left[name]
            edits[name] = prompt
    missing = [at for at, name in enumerate(places) if name is None]
    if missing and not state.active:
        raise BadCommand("edit_follow_up_queue: nothing runs that these could follow: send new ones as prompts")
    for at in missing:
        places[at] = await _added(session, prompts[at], f"{command_id}.{at}")
    order = [name for name in places if name is not None]
    if edits or left or order != [prompt_id(seq) for seq in (await session.state()).queue.waiting]:
        await session.edit_queue(*order, texts=edits, command_id=command_id, actor=ACTOR)


async def _waiting(session: Session, state: State) -> dict[str, str]:
    """The prompts that wait, with their words."""
    here = state.queue
    seqs = {edited if (edited := here.inputs[seq].edited_seq) is not None else seq for seq in here.waiting}
    events = await LogReader(session.runtime.store).events_at(session.key, seqs) if seqs else {}
    return {prompt_id(seq): queued_text(events, state, seq) for seq in here.waiting}


def _taken(left: dict[str, str], prompt: str) -> str | None:
    """Takes a prompt of these words out of those that are left."""
    for name, text in left.items():
        if text == prompt:
            del left[name]
            return name
    return None


async def _added(session: Session, prompt: str, command_id: str) -> str | None:
    """Has one more wait; None if a run took it at once."""
    await session.prompt(prompt, behavior="follow_up", command_id=command_id, actor=ACTOR)
    here = (await session.state()).queue
    return next((prompt_id(seq) for seq in here.waiting if here.inputs[seq].command_id == command_id), None)
