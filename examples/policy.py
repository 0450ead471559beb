"""Rules about calls, apart from the tools and from the instructions: deny beats ask beats allow.

Every decision is in the log with the rule that made it.
"""

from __future__ import annotations

import asyncio

import windlass
from windlass.events.tools.calls import ToolAllowed, ToolDenied
from windlass.runtime.api.approvals import PermissionAsk, QuestionAsk
from windlass.testing import ScriptedModel, call
from windlass.testing.scripted import AnyTurn


@windlass.tool
def pay(invoice: str, cents: int) -> str:
    "Pay an invoice."
    return f"paid {invoice}"


@windlass.tool
def delete(invoice: str) -> str:
    "Delete an invoice."
    return f"deleted {invoice}"


POLICY = windlass.Policy(
    rules=(
        windlass.deny("delete", reason="nothing is ever deleted"),
        windlass.ask("pay", when="args.cents > 10000"),
        windlass.allow("pay"),
    )
)


async def boss(asked: PermissionAsk | QuestionAsk) -> windlass.Approve | windlass.Deny:
    """Whoever may answer, however they are reached. This one is generous."""
    assert isinstance(asked, PermissionAsk)
    print(f"asked: may {asked.tool} run?")
    return windlass.Approve()


calls: list[AnyTurn] = [
    [call("pay", invoice="I-1", cents=500), call("pay", invoice="I-2", cents=25_000), call("delete", invoice="I-1")],
    "Both are paid, and nothing was deleted.",
]
clerk = windlass.Agent("clerk", model=ScriptedModel(calls), tools=[pay, delete], policy=POLICY, approver=boss)


async def main() -> None:
    print(windlass.explain(POLICY))
    async for event in clerk.stream("Tidy up."):
        match event:
            case ToolAllowed(call_id=call_id, by=by, rule=rule):
                print(f"{call_id}: allowed by {by} {rule!r}")
            case ToolDenied(call_id=call_id, rule=rule, detail=why):
                print(f"{call_id}: denied by {rule!r}: {why}")


if __name__ == "__main__":
    asyncio.run(main())
