"""Prompts and what stops them, and what changes how a session works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.adapters.acp.permission_requests import ACTOR
from windlass.adapters.acp.prompt_blocks import Said, said_in
from windlass.adapters.acp.view.fold import TurnEnded
from windlass.adapters.acp.view.session_forms import MODEL_OPTION, MODES, config_options
from windlass.events.changes import ChangeMode, ChangeModel, ChangeTitle
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import UsageError
from windlass.events.questions import Answer, AnswerBody
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.models import ModelRef
from windlass.events.values.usage import Usage
from windlass.protocol.json_rpc.rpc_peer import INTERNAL, RpcError
from windlass.runtime.api.sent_command import Sent

if TYPE_CHECKING:
    from windlass.adapters.acp.acp_host import AcpHost
    from windlass.adapters.acp.editor_session import Seat
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer

COMPACT = "compact"
TITLE_CHARS_MAX = 80
"""A session is called by the first words of its first prompt."""


async def prompt(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Says something to the agent; answered when the turn is over and all of it was told."""
    seat = host.seat(params)
    said = said_in(params["prompt"], seat.view.fold.cwd)
    command_id = host.plain.ports.fresh_id()
    ended = await seat.turn(command_id, _sent(seat, said, command_id))
    if ended.stop is None:
        raise RpcError(INTERNAL, ended.error)
    return {"stopReason": ended.stop, **_usage(ended)}


async def _sent(seat: Seat, said: Said, command_id: str) -> None:
    """Has the command taken that a prompt stands for: a question's answer, a summary, or words to the agent."""
    session = seat.session
    if seat.put_in_words is not None:
        body = AnswerBody(answers=(Answer(index=0, text=said.text),))
        await session.answer(seat.put_in_words, body, command_id=command_id, actor=ACTOR)
        return
    if not seat.view.fold.title and said.text:
        await session.change(ChangeTitle(title=" ".join(said.text.split())[:TITLE_CHARS_MAX]), actor=ACTOR)
    name, _, rest = said.text[1:].partition(" ") if said.text.startswith("/") else ("", "", "")
    if name == COMPACT:
        await session.compact(rest.strip(), command_id=command_id, actor=ACTOR)
        return
    blocks, shown = said.blocks, None
    if name in seat.view.fold.skills:
        others = tuple(block for block in blocks if not isinstance(block, Text))
        blocks, shown = (Text(text=f"skill:{name} {rest}".strip()), *others), said.text
    body_of = PromptBody(content=blocks, displayed=shown, attachments=said.attachments)
    await Sent(session, PromptReceived(command_id=command_id, actor=ACTOR, body=body_of))


def _usage(ended: TurnEnded) -> JsonObject:
    used = ended.usage
    if used is None or used == Usage():
        return {}
    told = {
        "totalTokens": used.input_tokens + used.output_tokens,
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "cachedReadTokens": used.cache_read_tokens,
        "cachedWriteTokens": used.cache_write_tokens,
    }
    return {"usage": told}


def cancel(host: AcpHost, params: dict[str, Any]) -> None:
    """Stops the turn. A session that is not open has none."""
    seat = host.seats.get(str(params.get("sessionId")))
    if seat is not None:
        seat.cancel()


async def set_mode(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    seat, mode = host.seat(params), params["modeId"]
    if mode not in MODES:
        raise UsageError(f"there is no mode {mode!r}: there are {', '.join(MODES)}")
    if mode != seat.view.fold.mode:
        await seat.session.change(ChangeMode(mode=mode), actor=ACTOR)
    return {}


async def set_config_option(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Sets the model, which is all that can be set."""
    seat, value = host.seat(params), params["value"]
    if params["configId"] != MODEL_OPTION:
        raise UsageError(f"there is no option {params['configId']!r}: there is {MODEL_OPTION!r}")
    await _use_model(seat, value)
    options = config_options(seat.view.fold)
    return {"configOptions": [{**option, "currentValue": value} for option in options]}


async def set_model(host: AcpHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The same as clients of earlier drafts of the protocol ask for it."""
    await _use_model(host.seat(params), params["modelId"])
    return {}


async def _use_model(seat: Seat, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise UsageError(f"{name!r} is no name of a model: 'windlass models' lists them")
    if name != seat.view.fold.model:
        await seat.session.change(ChangeModel(model=ModelRef(name=name)), actor=ACTOR)


METHODS = {
    "session/prompt": prompt,
    "session/set_mode": set_mode,
    "session/set_config_option": set_config_option,
    "session/set_model": set_model,
}
NOTICES = {"session/cancel": cancel}
"""What an editor only says."""
