"""Commands from outside, before they are taken: what only the host may say is looked up here and never believed.

A client asks; it does not tell the session what something weighs, what a hook ruled, what was visible in the past or
whether arguments are sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events import codec
from windlass.events.base import Command, name_of
from windlass.events.blocks import Text
from windlass.events.calls import CallReceived, MountReceived, ResultReceived, ToolSettled, UserCallBody
from windlass.events.context import UndoReceived
from windlass.events.errors import CodecError, Refused
from windlass.events.questions import AnswerReceived
from windlass.events.record import EVENT_BYTES_MAX
from windlass.events.runs import (
    CancelReceived,
    InterruptReceived,
    PromptBody,
    PromptReceived,
    QueueEdited,
    SignalReceived,
)
from windlass.events.sessions import ChangeModel, ChangeReceived, RewindReceived, SessionStarted
from windlass.events.specs import ItemRef, Limits, RunOptions
from windlass.kernel import log
from windlass.kernel.governance import matches
from windlass.kernel.state import State
from windlass.models.tokens import estimate_block, estimate_json, estimate_text
from windlass.store.base import Key, Store
from windlass.store.chain import history

from .fates import check_open
from .mounting import mounted_by_client

if TYPE_CHECKING:
    from .binding import Bound


def check_size(command: Command) -> None:
    """Raises `Refused` for a command that is too large to be kept as one event, or that no log can hold."""
    what = name_of(command).partition(".")[0]
    try:
        skeleton, body, _ = codec.encode_entry(command, str)
    except CodecError as error:
        raise Refused(
            "too_large",
            f"this {what} is larger than the {EVENT_BYTES_MAX} bytes that one event may have: send it in parts, or put "
            "it in a file and say where it is",
        ) from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Refused("malformed", f"this {what} holds what has no form in JSON: {error}") from error
    try:
        codec.require_readable(type(command), skeleton, body)
    except CodecError as error:
        raise Refused("malformed", f"this {what} cannot be kept: {error}") from error


async def admitted(command: Command, *, store: Store, key: Key, state: State, bound: Bound) -> Command:
    """The command as it may be taken. Raises `Refused` for one that no client may send, and for an answer to what is
    not open any more, with what became of it."""
    await check_open(command, store=store, key=key, state=state)
    match command:
        case SessionStarted():
            raise Refused("not_for_clients", "a session is started by its host")
        case PromptReceived():
            return _weighed_prompt(command, state, bound)
        case InterruptReceived() | CancelReceived():
            return msgspec.structs.replace(command, tokens=0, usage=None, body=None)
        case AnswerReceived():
            tokens = estimate_json(msgspec.to_builtins(command.body)) if command.body is not None else 8
            return msgspec.structs.replace(command, tokens=tokens)
        case ResultReceived() | ToolSettled():
            return _weighed_result(command)
        case SignalReceived():
            text = command.body.text if command.body is not None else ""
            return msgspec.structs.replace(command, tokens=estimate_text(text) + 16)
        case QueueEdited():
            edits = command.body.edits if command.body is not None else {}
            return msgspec.structs.replace(command, tokens={name: _weight(body) for name, body in edits.items()})
        case CallReceived():
            return _prepared_call(command, state, bound)
        case MountReceived():
            own = bound.attached.mounting.get(command.command_id)
            if own is None:
                return mounted_by_client(command, state, bound.attached)
            return msgspec.structs.replace(command, tools=own)
        case RewindReceived():
            restored, at = await visible_at(store, key, command.to_seq)
            return msgspec.structs.replace(command, to_seq=at, restored=restored)
        case UndoReceived():
            return msgspec.structs.replace(command, restored=await before_compaction(store, key))
        case ChangeReceived(change=ChangeModel(model=wanted)):
            change = ChangeModel(model=bound.known_model(wanted.name))
            return msgspec.structs.replace(command, change=change)
        case _:
            return command


def _weight(body: PromptBody) -> int:
    return sum(estimate_block(block) for block in body.content)


def _weighed_prompt(command: PromptReceived, state: State, bound: Bound) -> Command:
    body = command.body
    if body is None or not body.content:
        raise Refused("no_content", "a prompt needs content")
    size = sum(len(block.text) for block in body.content if isinstance(block, Text))
    options = _options(command.options, state, bound) if command.options is not None else None
    return msgspec.structs.replace(command, tokens=_weight(body), bytes=size, hooks=(), options=options)


def _options(asked: RunOptions, state: State, bound: Bound) -> RunOptions:
    """What a prompt may change for its run: a model that is known here, tools that are there, and those limits of each
    run that it names; the others stay."""
    limits = asked.limits
    if limits is not None:
        given = msgspec.structs.asdict(limits)
        kept = msgspec.structs.asdict(state.run_limits)
        limits = Limits(**{name: kept[name] if value is None else value for name, value in given.items()})
    return msgspec.structs.replace(
        asked,
        model=bound.known_model(asked.model.name) if asked.model is not None else None,
        limits=limits,
        tools=_named(asked.tools, state) if asked.tools is not None else None,
    )


def _named(wanted: tuple[str, ...], state: State) -> tuple[str, ...]:
    """The tools that names and globs mean, in the session's order. A name that means nothing is refused, so that a
    restriction never fails silently."""
    known = dict.fromkeys((*state.tools, *(spec.name for change in state.staged for spec in change.tools)))
    for name in wanted:
        if not any(matches(name, tool) for tool in known):
            raise Refused("unknown_tool", f"no tool {name!r}: there are {', '.join(known) or 'none'}")
    return tuple(tool for tool in known if any(matches(name, tool) for name in wanted))


def _weighed_result(command: ResultReceived | ToolSettled) -> Command:
    content = command.body.content if command.body is not None else ()
    changes: dict[str, Any] = {"tokens": sum(estimate_block(block) for block in content)}
    if isinstance(command, ResultReceived):
        changes["bytes"] = sum(len(block.text) for block in content if isinstance(block, Text))
    return msgspec.structs.replace(command, **changes)


def _prepared_call(command: CallReceived, state: State, bound: Bound) -> Command:
    if command.body is None:
        raise Refused("no_content", "a call needs its arguments")
    prepared = bound.prepared(state, command.tool, command.body.args, None)
    return msgspec.structs.replace(command, body=UserCallBody(args=command.body.args, prepared=prepared))


async def visible_at(store: Store, key: Key, to_seq: int) -> tuple[tuple[ItemRef, ...], int]:
    """What was visible at the last append boundary at or before a seq, and that boundary."""
    state = State()
    async for sealed in history(store, key, until=to_seq):
        log.fold_append(state, codec.decode(sealed.data, bodies=False))
    return log.visible(state), state.seq


async def before_compaction(store: Store, key: Key) -> tuple[ItemRef, ...]:
    """What was visible before the last compaction, and what came since."""
    restored = log.before_compaction([sealed.data async for sealed in history(store, key)])
    if not restored:
        raise Refused("nothing_to_undo", "no compaction has happened")
    return restored
