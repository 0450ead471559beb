"""An answer as a Python type. The model is reached over HTTP, as a real one is; it is a model server on this machine.

The first answer does not fit the type: the model is told what is wrong, and asked again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os

import windlass
from windlass.testing import ModelServer


@dataclasses.dataclass
class Invoice:
    """What we want to know."""

    number: str
    cents: int
    paid: bool


ANSWERS = [
    '{"number": "2024-17", "cents": "a lot", "paid": false}',
    '{"number": "2024-17", "cents": 129900, "paid": false}',
]


async def main() -> None:
    async with ModelServer(script=ANSWERS) as server:
        os.environ["OPENAI_API_KEY"] = "any"
        os.environ["OPENAI_BASE_URL"] = server.url("openai")
        agent = windlass.Agent("reader", model="openai/gpt-5-mini", output=Invoice)
        result = await agent.run("Invoice 2024-17 over 1,299.00, not paid yet.")
        print(result.output)
        print(f"{len(server.requests)} requests")


if __name__ == "__main__":
    asyncio.run(main())
