"""What a request to the model would carry at a point of a session, and what each part of it weighs."""

from __future__ import annotations

import msgspec

from windlass.events.sessions import SessionResumed, SessionStarted
from windlass.events.values.items import HistoryItem
from windlass.events.workspace import InstructionsRendered
from windlass.models.tokens import estimate_text
from windlass.runtime.context.task_block import task_state

from .label_sources import Source, sources
from .log_point import Point


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a request would carry, in its order."""

    session: str
    at: int
    model: str
    window_tokens: int
    tokens: dict[str, int]
    """Tokens by slot, as the kernel counts them."""
    instructions: str
    knowledge: tuple[str, ...]
    tools: list[str]
    items: list[HistoryItem]
    task_state: str
    labels: list[Source] = []
    """What is untrusted or private among all that the model has seen, and what brought it."""


def inspect(point: Point) -> Inspection:
    """What the model would see behind this point."""
    state, task = point.state, task_state(point.state)
    tools, knowledge = setup_of(point)
    return Inspection(
        session=point.key.session,
        at=point.seq,
        model=state.current_model.name,
        window_tokens=state.current_model.window_tokens,
        tokens={
            "instructions": state.workspace.instructions_tokens,
            "tools": state.toolset.tokens,
            "knowledge": state.setup.knowledge_tokens,
            "history": state.history.tokens,
            "task state": estimate_text(task) if task else 0,
        },
        instructions=instructions_of(point),
        knowledge=knowledge,
        tools=tools,
        items=point.items(),
        task_state=task,
        labels=sources(point),
    )


def instructions_of(point: Point) -> str:
    """What the agent is told first, files of its folder included; empty if it is told nothing."""
    event = point.events.get(point.state.workspace.instructions_seq)
    return event.body.text if isinstance(event, InstructionsRendered) and event.body is not None else ""


def setup_of(point: Point) -> tuple[list[str], tuple[str, ...]]:
    """The tools with their descriptions, and the texts that the agent knows."""
    event = point.events.get(point.state.setup.seq)
    if not isinstance(event, SessionStarted | SessionResumed) or event.body is None:
        return list(point.state.toolset.tools), ()
    tools = [f"{text.name}: {text.description}" for text in event.body.tools if text.name in point.state.toolset.tools]
    return tools, event.body.knowledge
