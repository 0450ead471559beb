"""How a request begins. Providers cache the bytes that a request shares with the one before, so a change is said.

(a cause: model, tools, instructions, compaction …) ──▶ reasons ──▶ prefix.changed, before the next request
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.turns import PrefixChanged
from windlass.events.values.blocks import Value
from windlass.kernel.part import Decisions, Part

if TYPE_CHECKING:
    from windlass.kernel.state import State


class Shape(Value, frozen=True, kw_only=True):
    """What a run may change about how a request begins."""

    model: str
    tools: tuple[str, ...] | None = None
    wrap_up: bool = False
    output: bool = False
    output_tokens: int = 0


class Prefix(msgspec.Struct, kw_only=True, gc=False):
    """How the last request of the main lane began, and why the next one will not begin so."""

    reasons: list[str] = []
    sent: Shape | None = None


def differs(state: State, reason: str) -> None:
    """Remembers why the next request will not begin with the last one's bytes."""
    here = state.prefix
    if here.sent is not None and reason not in here.reasons:
        here.reasons.append(reason)


def sent(state: State, output_tokens: int) -> None:
    """Remembers how a request begins; most begin as the one before did."""
    before, wrap_up = state.prefix.sent, state.turn.wrap_up
    if (
        before is None
        or state.run.options is not None
        or before.tools is not None
        or before.output_tokens != output_tokens
        or before.wrap_up != wrap_up
        or before.model != state.setup.model.name
        or before.output != state.setup.settings.output_required
    ):
        state.prefix.sent = shape(state, output_tokens, wrap_up=wrap_up)


def shape(state: State, output_tokens: int, *, wrap_up: bool) -> Shape:
    """How a request of the main lane begins, as far as a run can change it."""
    options = state.run.options
    return Shape(
        model=state.current_model.name,
        tools=options.tools if options is not None else None,
        wrap_up=wrap_up,
        output=state.output_required(),
        output_tokens=output_tokens,
    )


def prefix_changed(state: State, event: PrefixChanged) -> None:
    state.prefix.reasons = []


def changed(state: State, output_tokens: int, *, wrap_up: bool) -> Decisions:
    """Says so if the next request of the main lane will not begin with the bytes of the last one."""
    reasons = list(state.prefix.reasons)
    before, now = state.prefix.sent, shape(state, output_tokens, wrap_up=wrap_up)
    if before is not None and before != now:
        differences = {
            "model": before.model != now.model,
            "tools": before.tools != now.tools or before.wrap_up != now.wrap_up,
            "output": before.output != now.output or before.output_tokens != now.output_tokens,
        }
        reasons += [name for name, differs in differences.items() if differs and name not in reasons]
    if reasons:
        yield PrefixChanged(reasons=tuple(reasons))  # type: ignore[arg-type]


PART = Part(name="prefix", decisions={PrefixChanged: prefix_changed})
