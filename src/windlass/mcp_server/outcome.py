"""How a session stands, as callers are told: what its run came to, and what it asks of people now."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.runtime.api.approvals import PermissionAsk
from windlass.runtime.api.result import Result
from windlass.runtime.api.session import Session

from .desk import Ask, Words, ask_id

FAILED = ("failed", "cancelled", "interrupted")


class OpenAsk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that waits for a person."""

    request_id: str
    kind: Literal["permission", "choice", "form", "plan"]
    shown: str
    """What is asked, in words."""
    tool: str = ""
    digest: str = ""
    answered_by: str = ""
    """How a person answers it in a terminal."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as it stands."""

    session_id: str
    status: str
    """`running`, or how the run ended: completed, failed, cancelled, interrupted, asked, sleeping."""
    agent: str = ""
    text: str = ""
    """What the agent answered."""
    output: Any = None
    failure: str = ""
    cost_usd: float = 0.0
    wake_at_ms: int | None = None
    labels: tuple[str, ...] = ()
    asks: tuple[OpenAsk, ...] = ()
    command_id: str = ""
    """The command that was kept, if one was sent."""


def open_ask(ask: Ask, words: Words) -> OpenAsk:
    """A request as callers are told of it."""
    permission = ask if isinstance(ask, PermissionAsk) else None
    return OpenAsk(
        request_id=ask_id(ask),
        kind="permission" if isinstance(ask, PermissionAsk) else ask.kind,
        shown=words.asked(ask),
        tool=permission.tool if permission is not None else "",
        digest=permission.digest if permission is not None else "",
        answered_by=words.by_hand(ask),
    )


async def outcome_of(session: Session, result: Result | None, words: Words, command_id: str = "") -> Outcome:
    """How a session stands now; `result` is the end of its run if that has come."""
    asks = await session.runtime.host.views.asked(session.key)
    agent = (await session.state()).setup.agent.name
    told = tuple(open_ask(ask, words) for ask in asks)
    if result is None:
        return Outcome(session_id=session.session_id, status="running", agent=agent, asks=told, command_id=command_id)
    return Outcome(
        session_id=session.session_id,
        status=result.status,
        agent=agent,
        text=result.text,
        output=result.output,
        failure=result.failure.message if result.failure is not None else "",
        cost_usd=result.cost_usd,
        wake_at_ms=result.wake_at_ms,
        labels=result.labels,
        asks=told,
        command_id=command_id,
    )


def in_words(outcome: Outcome) -> str:
    """The same for whoever reads only text."""
    lines = [outcome.text] if outcome.text else []
    if outcome.failure:
        lines.append(outcome.failure)
    lines.append(f"(session {outcome.session_id}: {outcome.status})")
    if outcome.status == "running":
        how = "It waits for a person." if outcome.asks else "It goes on by itself."
        lines.append(f"{how} Call wait with this session_id to hear how it ends.")
    for ask in outcome.asks:
        lines += ["", f"A person must answer {ask.request_id}:", ask.shown]
        if ask.answered_by:
            lines += ["in a terminal:", ask.answered_by]
    return "\n".join(lines)
