"""Commands from outside, before they are taken: what only the host may say is looked up here and never believed.

A client asks; it does not tell the session what something weighs, what a hook ruled, what was visible in the past or
whether arguments are sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.base import Command, name_of
from windlass.events.changes import ChangeAgent, ChangeModel, ChangeReceived
from windlass.events.commands import PromptBody, PromptReceived, QueueEdited
from windlass.events.context import UndoReceived
from windlass.events.errors import CodecError, Refused, UsageError
from windlass.events.questions import AnswerReceived
from windlass.events.runs import CancelReceived, InterruptReceived
from windlass.events.sessions import RewindReceived, SessionStarted
from windlass.events.signals import SignalReceived
from windlass.events.skills import SkillReceived
from windlass.events.stored import codec
from windlass.events.stored.record import EVENT_BYTES_MAX
from windlass.events.tools.calls import CallReceived, ResultReceived, ToolSettled, UserCallBody
from windlass.events.tools.toolset import MountReceived
from windlass.events.trees.accounts import ChildSettled, GrantReceived
from windlass.events.trees.children import ChildFinished, ChildMoved
from windlass.events.trees.growth import NodesReceived
from windlass.events.trees.machines import MachineReceived
from windlass.events.values.blocks import Text
from windlass.events.values.ids import prompt_id
from windlass.events.values.label_words import strange
from windlass.events.values.setup import ItemRef, Limits, RunOptions
from windlass.events.values.traces import WANTED, trace_context
from windlass.kernel import log as kernel_log
from windlass.kernel.parts.tools.policy_rules import matches
from windlass.kernel.render import prompted
from windlass.kernel.state import State
from windlass.models.tokens import estimate_block, estimate_json, estimate_text
from windlass.runtime.bind.mounted_tools import mounted_by_client
from windlass.runtime.bind.prepared_calls import looks_aside, prepared_call
from windlass.runtime.bind.selected_agent import only_reads, specialist_of
from windlass.runtime.machines.call_checks import check_received
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key
from windlass.tools.planes.withheld_content import withheld_by

from .excluded_attachments import without_excluded
from .fitting_answers import check_answer
from .fitting_nodes import fitting
from .stale_answers import check_open

if TYPE_CHECKING:
    from windlass.runtime.bind.bound_agent import Bound

TRACE_CHARS_MAX = 256


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


GRANTED_ABOVE = "more budget is granted by the session above: call grant() on that one"


async def admitted(
    command: Command, log: LogReader, key: Key, state: State, bound: Bound, *, message: bool = False
) -> Command:
    """The command as it may be taken. Raises `Refused` for one that no client may send, and for an answer to what is
    not open any more, with what became of it. A `message` comes from another session."""
    await check_open(command, log, key, state)
    await check_answer(command, log, key, state)
    match command:
        case SessionStarted():
            raise Refused("not_for_clients", "a session is started by its host")
        case ChildFinished() | ChildMoved() | ChildSettled() if not message:
            raise Refused("not_for_clients", "what becomes of a child is told by itself")
        case GrantReceived() if not message:
            raise Refused("not_for_clients", GRANTED_ABOVE)
        case PromptReceived():
            return weighed_prompt(command, state, bound)
        case InterruptReceived() | CancelReceived():
            return msgspec.structs.replace(command, tokens=0, usage=None, body=None)
        case AnswerReceived():
            tokens = estimate_json(msgspec.to_builtins(command.body)) if command.body is not None else 8
            return msgspec.structs.replace(command, tokens=tokens)
        case ResultReceived() | ToolSettled():
            return _weighed_result(command, state)
        case SignalReceived():
            _check_trace(command.trace)
            text = command.body.text if command.body is not None else ""
            return msgspec.structs.replace(command, tokens=estimate_text(text) + 16)
        case QueueEdited():
            return await _rewritten(command, log, key, state)
        case CallReceived():
            return _prepared_call(command, state, bound)
        case MachineReceived():
            check_received(command, state)
            return command
        case MountReceived():
            own = bound.local_code.mounting.get(command.command_id)
            if own is None:
                return mounted_by_client(command, state, bound)
            return msgspec.structs.replace(command, tools=own)
        case NodesReceived():
            return fitting(command, state, bound)
        case SkillReceived():
            if bound.skills is None:
                raise Refused("no_skills", "this session has no skills: give its agent some, Agent(skills=…)")
            return await bound.skills.filled(command)
        case RewindReceived():
            then = await log.state_at(key, command.to_seq)
            visible = kernel_log.visible(then)
            return msgspec.structs.replace(command, to_seq=then.seq, restored=visible, changes=(), left=())
        case UndoReceived():
            return msgspec.structs.replace(command, restored=await before_compaction(log, key))
        case ChangeReceived(change=ChangeModel(model=wanted)):
            change = ChangeModel(model=bound.known_model(wanted.name))
            return msgspec.structs.replace(command, change=change)
        case ChangeReceived(change=ChangeAgent(agent=name)):
            return msgspec.structs.replace(command, change=_selected(name, bound))
        case _:
            return command


def _selected(name: str, bound: Bound) -> ChangeAgent:
    """The selection of a specialist, with what its code says of it. Raises `Refused` for one that cannot be."""
    if not name:
        return ChangeAgent()
    try:
        specialist = specialist_of(bound.own_agent, name)
    except UsageError as error:
        raise Refused("unknown_agent", str(error)) from error
    return ChangeAgent(
        agent=name,
        display_name=specialist.display_name,
        tools=tuple(tool.name for tool in specialist.toolset),
        only_reads=only_reads(specialist),
    )


async def _rewritten(command: QueueEdited, log: LogReader, key: Key, state: State) -> Command:
    """Prompts with new words. What was attached to them stays, unless something else is attached now."""
    if command.body is None:
        return msgspec.structs.replace(command, tokens={})
    waiting = {prompt_id(given.seq): given for given in state.queue.inputs.values()}
    edits = dict(command.body.edits)
    for name, given_body in edits.items():
        body = edits[name] = without_excluded(given_body, state)
        if not body.attachments and (given := waiting.get(name)) is not None:
            before = await log.event_at(key, given.seq if given.edited_seq is None else given.edited_seq)
            said = before.body.edits.get(name) if isinstance(before, QueueEdited) and before.body is not None else None
            said = before.body if isinstance(before, PromptReceived) else said
            edits[name] = msgspec.structs.replace(body, attachments=said.attachments if said is not None else ())
        _require_content(edits[name])
    tokens = {name: _weight(body) for name, body in edits.items()}
    return msgspec.structs.replace(command, tokens=tokens, body=msgspec.structs.replace(command.body, edits=edits))


def _weight(body: PromptBody) -> int:
    return sum(estimate_block(block) for block in prompted(body))


def weighed_prompt(command: PromptReceived, state: State, bound: Bound) -> PromptReceived:
    """A prompt with its weight and what it is marked with. Raises `Refused` for one that says nothing, or names what
    is not known here."""
    body = command.body
    if body is None:
        raise Refused("no_content", "a prompt needs content")
    _require_content(body)
    body = without_excluded(body, state)
    size = sum(len(block.text) for block in prompted(body) if isinstance(block, Text))
    options = _options(command.options, state, bound) if command.options is not None else None
    marks = tuple(dict.fromkeys((*command.labels, *(label for given in body.attachments for label in given.labels))))
    if wrong := strange(marks):
        raise Refused("malformed", wrong)
    _check_trace(command.trace)
    return msgspec.structs.replace(
        command, tokens=_weight(body), bytes=size, hooks=(), options=options, labels=marks, body=body
    )


def _check_trace(trace: str) -> None:
    """Raises `Refused` for a trace context that is none, or so long that it would only fill the log."""
    if trace and (len(trace) > TRACE_CHARS_MAX or trace_context(trace) is None):
        raise Refused("malformed", f"the trace {trace[:80]!r} is no trace context: write {WANTED}")


def _require_content(body: PromptBody) -> None:
    """Raises `Refused` for a prompt that says nothing: no provider takes it."""
    says = any(not isinstance(block, Text) or block.text.strip() for block in body.content)
    if not says and not body.attachments:
        raise Refused("no_content", "a prompt needs content: give it words, or attach something")


def _options(asked: RunOptions, state: State, bound: Bound) -> RunOptions:
    """What a prompt may change for its run: a model that is known here, tools that are there, and those limits of each
    run that it names; the others stay."""
    limits = asked.limits
    if limits is not None:
        given = msgspec.structs.asdict(limits)
        kept = msgspec.structs.asdict(state.budget.run_limits)
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
    known = dict.fromkeys(
        (*state.toolset.tools, *(spec.name for change in state.toolset.staged for spec in change.tools))
    )
    for name in wanted:
        if not any(matches(name, tool) for tool in known):
            raise Refused("unknown_tool", f"no tool {name!r}: there are {', '.join(known) or 'none'}")
    return tuple(tool for tool in known if any(matches(name, tool) for name in wanted))


def _weighed_result(command: ResultReceived | ToolSettled, state: State) -> Command:
    withheld = withheld_by(tuple(state.gate.policy.exclude_patterns))
    if withheld is not None and command.body is not None:
        command = msgspec.structs.replace(command, body=withheld.body(command.body))
    content = command.body.content if command.body is not None else ()
    changes: dict[str, Any] = {"tokens": sum(estimate_block(block) for block in content)}
    if isinstance(command, ResultReceived):
        changes["bytes"] = sum(len(block.text) for block in content if isinstance(block, Text))
    return msgspec.structs.replace(command, **changes)


def _prepared_call(command: CallReceived, state: State, bound: Bound) -> Command:
    if command.body is None:
        raise Refused("no_content", "a call needs its arguments")
    if looks_aside(bound, state, command.tool):
        return command  # the host looks at it in a thread, once it is on record
    prepared = prepared_call(bound, state, command.tool, command.body.args, None)
    return msgspec.structs.replace(command, body=UserCallBody(args=command.body.args, prepared=prepared))


async def before_compaction(log: LogReader, key: Key) -> tuple[ItemRef, ...]:
    """What was visible before the last compaction, and what came since."""
    restored = kernel_log.before_compaction([sealed.data async for sealed in log.appends(key)])
    if not restored:
        raise Refused("nothing_to_undo", "no compaction has happened")
    return restored
