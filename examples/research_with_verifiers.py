"""Research as a workflow: claims are found, each is verified in a context of its own, a skeptic looks at the verdicts.

Runs offline: what the models say is scripted. The claims are not known before, so a map has a verifier for each;
a verifier sees its claim and nothing else, so it cannot just agree with whoever wrote it.
"""

import asyncio
import json

import windlass
from windlass import flows
from windlass.models.base import Request
from windlass.testing import ScriptedModel

CLAIMS = ["Money is kept in cents.", "Errors are never dropped.", "Times are in UTC."]


def verified(request: Request) -> str:
    """What the verifiers say: one of the claims does not hold."""
    holds = "Errors" not in str(request.items)
    return json.dumps({"holds": holds, "why": "read the code" if holds else "billing.py drops them"})


finder = windlass.Agent("finder", model=ScriptedModel([json.dumps(CLAIMS)]))
verifier = windlass.Agent("verifier", model=ScriptedModel(verified), role="verify")
skeptic = windlass.Agent("skeptic", model=ScriptedModel(["One of three is wrong: billing.py drops errors."]))

flow = flows.Flow(
    "research",
    [
        flows.spawn("claims", finder, "List what {input} claims, as a JSON array.", output=list[str]),
        flows.map_over("verdicts", "claims", verifier, "Does this hold? {item}", retries=1),
        flows.spawn("report", skeptic, "Which of these verdicts are real?", needs=["verdicts"]),
    ],
    budget=windlass.Budget(tokens=100_000),
)


async def main() -> None:
    async with windlass.open("research.db", agents=[flow]) as runtime:
        run = await runtime.flow(flow, "march", input="the design document")
        async for event in run.progress():
            if isinstance(event, flows.NodeFinished):
                print(event.node, event.status)
        result = await run.result()
        print(len(result.outputs["verdicts"]), "verdicts")
        print(result.output)
    print(flows.mermaid(flow.graph).splitlines()[0])


if __name__ == "__main__":
    asyncio.run(main())
