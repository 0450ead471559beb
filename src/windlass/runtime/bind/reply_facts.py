"""A model's reply as a fact: its calls under their own names and prepared for the gate, its output checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.turns import ModelReplied, OutputCheck, ReplyBody, ReplyCall
from windlass.events.values.blocks import Reasoning, Text
from windlass.events.values.items import AssistantItem, ProposedCall
from windlass.kernel.effects import CallModel
from windlass.kernel.parts.requests import cost_of, reported
from windlass.kernel.state import State
from windlass.models.base import Reply
from windlass.models.tokens import estimate_reply

from .prepared_calls import looks_aside, prepared_call

if TYPE_CHECKING:
    from .bound_agent import Bound

ANSWERED = ("stop", "stop_sequence", "tool_calls", "other", "error")
"""How an answer ends that the model itself took for one."""


def replied(bound: Bound, state: State, effect: CallModel, reply: Reply, *, prepare: bool) -> ModelReplied:
    """The fact of a reply, its calls prepared for the gate unless hooks must see them first."""
    calls = tuple(_call(bound, state, call, prepare=prepare) for call in reply.calls)
    body = ReplyBody(
        blocks=reply.blocks,
        calls=calls,
        output=_checked(bound, state, reply) if not calls and effect.lane == "main" else None,
        quotas=reply.quotas,
        provider_data=reply.provider_data,
    )
    said = [block for block in reply.blocks if isinstance(block, Text)]
    tokens = max(reply.usage.output_tokens, 1)
    if reply.usage.estimated:
        tokens = estimate_reply(AssistantItem(content=tuple(said)))
    return ModelReplied(
        request_id=effect.request_id,
        lane=effect.lane,
        finish=reply.finish,
        usage=reply.usage,
        model=reply.model,
        provider=reply.provider,
        provider_request_id=reply.request_id,
        response_id=reply.response_id,
        calls=len(calls),
        empty=not calls and _says_nothing(reply, effect.lane),
        tokens=tokens,
        bytes=sum([len(block.text) for block in said]),
        duration_ms=reply.duration_ms,
        first_output_ms=reply.first_output_ms,
        cost_nanos=_cost(state, effect, reply, tokens),
        body=body,
    )


def _cost(state: State, effect: CallModel, reply: Reply, tokens: int) -> int | None:
    """What the reply cost by the price of the model that was asked; None if nobody knows its price."""
    request = state.requests.open.get(effect.request_id)
    if request is None or request.price is None:
        return None
    return cost_of(request, reported(reply.usage, request, tokens))


def _call(bound: Bound, state: State, call: ProposedCall, *, prepare: bool) -> ReplyCall:
    """A call under its canonical name, with what the gate needs to know."""
    name = bound.canonical(state, call.tool)
    if name != call.tool:
        call = msgspec.structs.replace(call, tool=name)
    if not prepare or call.malformed is not None or looks_aside(bound, state, name):
        return ReplyCall(call=call)
    return ReplyCall(call=call, prepared=prepared_call(bound, state, name, call.args, call.text))


def _checked(bound: Bound, state: State, reply: Reply) -> OutputCheck | None:
    if bound.output is None or not state.output_required():
        return None
    text = "".join(block.text for block in reply.blocks if isinstance(block, Text))
    try:
        check: OutputCheck = bound.output.check(text)
    except (Exception, SystemExit) as error:  # code of the type's author: what it cannot read does not fit
        return OutputCheck(valid=False, errors=(f"the answer cannot be checked ({type(error).__name__}: {error})",))
    return check


def _says_nothing(reply: Reply, lane: str) -> bool:
    """Whether there is nothing in a reply for anybody to read: thoughts and blanks are no answer, and whatever is not
    text is no summary. What was cut off, filtered or refused says so by itself."""
    if lane == "compact":
        return not any(isinstance(block, Text) and block.text.strip() for block in reply.blocks)
    if not reply.blocks or reply.finish not in ANSWERED:
        return not reply.blocks
    return all(isinstance(b, Reasoning) or (isinstance(b, Text) and not b.text.strip()) for b in reply.blocks)
