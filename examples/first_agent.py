"""An agent with a tool, in ten lines."""

from __future__ import annotations

import windlass
from windlass.testing import ScriptedModel, call


@windlass.tool(contract="pure")
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


model = ScriptedModel([call("add", x=17, y=28), "17 + 28 is 45."])
agent = windlass.Agent("math", model=model, instructions="Use the tools.", tools=[add])

if __name__ == "__main__":
    result = agent.run_sync("What is 17 + 28?")
    print(result.text)
    print(f"{result.turns} turns, {result.usage.output_tokens} tokens written, ${result.cost_usd:.2f}")
