"""Tool: one call of a tool, without a child session."""

from __future__ import annotations

from windlass.runtime.flows.references import filled_in

from .move import Calls, Move, Work, ended, failed, why_not


def tool(work: Work) -> Move:
    """One call of a tool; what it gave is the output."""
    if not work.rounds:
        return Calls([(work.node.tool, filled_in(work.node.args, work.values))])
    result = work.rounds[-1][0]
    return ended(work, result.value) if result.ok else failed(why_not(result))
