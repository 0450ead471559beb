"""The commands that wait in a session's inbox: what they answer, and what the session will be once they are taken.

A command is judged behind those that were sent before it, so that whoever comes second is told what came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.events.base import Command, name_of
from windlass.events.errors import CodecError, KernelError, Refused
from windlass.events.stored import codec
from windlass.kernel import log
from windlass.kernel.fold import MISFITS
from windlass.kernel.state import State
from windlass.kernel.step import step
from windlass.store.base import Key, Store

from .stale_answers import answered, fate_in

INBOX_MAX = 10_000
"""How many waiting commands are looked at."""
SHOWN_MAX = 5
NOT_JUDGED = (KernelError, *MISFITS)
"""What is raised for a command that only its host can complete (weights, checked arguments)."""


async def pending(store: Store, key: Key, *, before: str | None = None) -> list[Command]:
    """The commands that nobody has taken yet, in the order in which they were sent; only those before one of them, if
    its id is given. What is unreadable is left out: whoever drives the session refuses it."""
    commands: list[Command] = []
    for waiting in await store.inbox.waiting(key, limit=INBOX_MAX):
        if waiting.command_id == before:
            break
        try:
            commands.append(codec.decode_command(waiting.data))
        except CodecError:
            continue
    return commands


def check_behind(state: State, commands: Sequence[Command], command: Command, at_ms: int) -> None:
    """Raises `Refused` with what came first, if a session will not take a command because of those that wait before
    it."""
    if not commands:
        return
    later, fitting = ahead(state, commands, at_ms)
    answers = answered(command)
    name = getattr(command, answers.field) if answers is not None else ""
    first = given(fitting).get(name)
    if answers is not None and first is not None:
        raise Refused(
            "not_open", f"{answers.word} {name} has an answer that waits in the inbox: {first}; the first counts"
        )
    try:
        step(later, command, at_ms)
    except Refused as refusal:
        told = ", ".join(f"{name_of(each)} by {each.actor or 'someone'}" for each in fitting[:SHOWN_MAX])
        raise Refused(refusal.code, f"{refusal} (once what waits in its inbox is taken: {told})") from None
    except NOT_JUDGED:
        return  # whoever drives the session knows more of the commands before it


def given(commands: Iterable[Command]) -> dict[str, str]:
    """What the first answer among some commands makes of each thing that is answered, by its id: "ada approved it"."""
    fates: dict[str, str] = {}
    for command in commands:
        answers = answered(command)
        if answers is not None:
            fates.setdefault(getattr(command, answers.field), fate_in(command) or "somebody answered it")
    return fates


def ahead(state: State, commands: Sequence[Command], at_ms: int) -> tuple[State, list[Command]]:
    """The state once some commands are taken, as far as that can be said without performing anything; and those of
    them that will be, as it looks."""
    now, fitting = log.copy(state), []
    for command in commands:
        before = log.dump(now)
        try:
            step(now, command, at_ms)
        except (Refused, *NOT_JUDGED):
            now = log.load(before)
        else:
            fitting.append(command)
    return now, fitting
