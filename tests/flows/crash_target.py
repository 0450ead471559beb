"""A workflow worked off by a process that may be killed at any append: children, a map, a retry, a reducer."""

from __future__ import annotations

import asyncio
import pathlib
import sys

import windlass
from tests.runtime.tree_target import dies_at
from windlass import flows
from windlass.models.base import Request
from windlass.testing import ScriptedModel

PATIENT = windlass.Settings(losses_max=1_000)
"""Losing so many owners is what is tried here."""


def said(request: Request) -> str:
    task = "".join(getattr(block, "text", "") for block in request.items[0].content)
    return '["x", "y"]' if task.startswith("list") else f"<{task.splitlines()[0]}>"


def flow() -> flows.Flow:
    worker = windlass.Agent("worker", ScriptedModel(said), settings=PATIENT)
    return flows.Flow(
        "killed",
        [
            flows.spawn("list", worker, "list"),
            flows.map_over("each", "list", worker, "check {item}"),
            flows.spawn("aside", worker, "aside"),
            flows.reduce("lines", "dedupe_lines", ["each", "aside"]),
            flows.spawn("last", worker, "sum up {lines}", needs=["lines"], timeout=3600),
        ],
        settings=PATIENT,
    )


async def work(folder: pathlib.Path, number: int, *, kept: bool) -> None:
    graph = flow()
    async with windlass.open(folder / "work.db", agents=[graph], take_up=False) as runtime:
        dies_at(runtime.store, number, kept=kept)
        run = await runtime.flow(graph, "f", input="go")
        result = await run.result()
        print(result.status, result.output, flush=True)


if __name__ == "__main__":
    asyncio.run(work(pathlib.Path(sys.argv[1]), int(sys.argv[2]), kept=sys.argv[3] == "kept"))
