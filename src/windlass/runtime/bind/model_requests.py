"""What is sent to a model: for the conversation, for a summary of it, and for what a tool or a judge asks aside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.stored.known_secrets import SECRETS
from windlass.events.turns import AskBody
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.items import HistoryItem, ModelSettings, OutputSchema, UserItem
from windlass.kernel.effects import CallModel
from windlass.kernel.parts.runs import traced
from windlass.kernel.state import State
from windlass.models.base import Request
from windlass.runtime.context.task_block import task_state

if TYPE_CHECKING:
    from .bound_agent import Bound

SUMMARY_INSTRUCTIONS = (
    "Summarise the conversation below for yourself, so that you can go on working from the summary alone. Keep: what "
    "the user wants, decisions and their reasons, facts and figures that were found, files and ids that matter, what "
    "is done, what is open. Leave out pleasantries and what was superseded. Write plain text."
)
SUMMARY_REQUEST = "Write the summary now."


def request(bound: Bound, state: State, effect: CallModel, items: list[HistoryItem], wanted: str = "") -> Request:
    """What is sent for an effect, from the state and the rendered history. `wanted` is what somebody asked of a
    summary."""
    if effect.lane == "compact":
        return _summary_request(bound, state, effect, items, wanted)
    agent = bound.agent
    settings = msgspec.structs.replace(agent.model_settings, max_output_tokens=effect.output_tokens)
    if state.turn.wrap_up:
        settings = msgspec.structs.replace(settings, tool_choice="none")
    output = bound.agent.output_schema if state.output_required() else None
    return Request(
        model=effect.model,
        instructions=SECRETS.hidden_text(bound.told(state)),
        knowledge=_without_secrets(agent.knowledge),
        items=items,
        task_state=task_state(state),
        tools=bound.offered(state),
        output=_output_schema(output) if output is not None else None,
        settings=settings,
        session=state.session_id,
        lane="main",
        attempt=effect.request_id,
        traceparent=_traceparent(state, effect),
    )


def _traceparent(state: State, effect: CallModel) -> str:
    """The trace context of a request, if the run is a part of somebody's trace: nobody else needs to know of one."""
    return traced(state, effect.request_id).traceparent if state.run.trace else ""


def _without_secrets(knowledge: Iterable[str]) -> tuple[str, ...]:
    """An author's own words, which no log was asked to keep before they are sent."""
    return tuple(SECRETS.hidden_text(text) for text in knowledge)


def _output_schema(schema: JsonObject) -> OutputSchema:
    from .structured_output import strict

    return OutputSchema(name="answer", json_schema=schema, strict=strict(schema))


def _summary_request(bound: Bound, state: State, effect: CallModel, items: list[HistoryItem], wanted: str) -> Request:
    text = f"{SUMMARY_REQUEST}\nWhat was asked of it: {wanted}" if wanted else SUMMARY_REQUEST
    asked = UserItem(key="summary-request", content=(Text(text=text),))
    span = [*items[: state.compaction.items], asked]
    return Request(
        model=effect.model,
        instructions=SECRETS.hidden_text(state.setup.settings.summary_instructions or SUMMARY_INSTRUCTIONS),
        items=span,
        settings=_settings_aside(bound, effect),
        session=state.session_id,
        lane="compact",
        attempt=effect.request_id,
        traceparent=_traceparent(state, effect),
    )


def aside_request(bound: Bound, state: State, effect: CallModel, body: AskBody) -> Request:
    """What is sent for a tool or a judge: its words alone, nothing of the conversation."""
    return Request(
        model=effect.model,
        instructions=body.instructions,
        items=[UserItem(key="asked", content=(Text(text=body.prompt),))],
        output=_output_schema(body.output_schema) if body.output_schema is not None else None,
        settings=_settings_aside(bound, effect),
        session=state.session_id,
        lane=effect.lane,
        attempt=effect.request_id,
        traceparent=_traceparent(state, effect),
    )


def _settings_aside(bound: Bound, effect: CallModel) -> ModelSettings:
    """What a request outside of the conversation is sent with: the agent's settings are for its own model alone."""
    own = bound.agent.model_settings if effect.model == bound.info.name else ModelSettings()
    return msgspec.structs.replace(own, max_output_tokens=effect.output_tokens, tool_choice="auto")
