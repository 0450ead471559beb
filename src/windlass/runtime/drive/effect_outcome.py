"""An effect that was performed: the fact to report, and what is reported if that cannot be kept."""

from __future__ import annotations

import msgspec

from windlass.events import known_types
from windlass.events.base import Fact
from windlass.events.errors import CodecError
from windlass.events.tools.calls import ResultBody, ToolFinished, ToolSuspended
from windlass.events.trees.flows import NodeBody, NodeComputed
from windlass.events.trees.machines import ComputedBody, MachineComputed
from windlass.events.turns import ModelFailed, ModelReplied
from windlass.events.values.blocks import Text
from windlass.events.values.failures import failure
from windlass.events.values.usage import Usage

REASON_CHARS_MAX = 500


class Done:
    """A fact with the blobs that it refers to, ready to be taken."""

    __slots__ = ("blobs", "fact")

    def __init__(self, fact: Fact, blobs: dict[str, bytes] | None = None) -> None:
        self.fact = fact
        self.blobs = blobs


def instead_of(fact: Fact, why: CodecError) -> Fact | None:
    """What is reported if an outcome cannot be kept as it came; None if nothing else can be said."""
    if isinstance(fact, ModelReplied):
        told = failure("reply_too_large", f"the answer cannot be kept: {why}", retryable=False, provider=fact.provider)
        return ModelFailed(
            request_id=fact.request_id,
            lane=fact.lane,
            failure=told,
            usage=_sound(fact.usage),
            duration_ms=fact.duration_ms,
        )
    if isinstance(fact, ModelFailed):
        told = failure("internal", f"the model failed, and how cannot be kept: {why}", retryable=False)
        return ModelFailed(request_id=fact.request_id, lane=fact.lane, attempt=fact.attempt, failure=told)
    if isinstance(fact, ToolFinished | ToolSuspended):
        told = failure("tool_result_invalid", f"the result cannot be kept: {why}")
        body = ResultBody(content=(Text(text="the tool ran, but its result cannot be kept"),))
        return ToolFinished(call_id=fact.call_id, ok=False, failure=told, error_code=told.kind, tokens=16, body=body)
    if isinstance(fact, NodeComputed):
        return NodeComputed(
            node=fact.node,
            attempt=fact.attempt,
            round=fact.round,
            outcome="failed",
            reason=f"what it gave cannot be kept: {why}"[:REASON_CHARS_MAX],
            body=NodeBody(),
        )
    if isinstance(fact, MachineComputed):
        reason = f"what it does cannot be kept: {why}"[:REASON_CHARS_MAX]
        return MachineComputed(visit=fact.visit, attempt=fact.attempt, work="none", reason=reason, body=ComputedBody())
    return None


def _sound(usage: Usage) -> Usage | None:
    """A usage as far as it can be kept: models are other people's code."""
    try:
        return known_types.convert(msgspec.to_builtins(usage), Usage)
    except msgspec.ValidationError:
        return None
