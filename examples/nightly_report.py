"""A nightly report: a schedule begins a session at each of its times, once, and outlives the process that made it.

Runs offline in two seconds: instead of two o'clock at night it takes every fifth of a second.
"""

import asyncio

import windlass
from windlass.events.schedules import OccurrenceDelivered
from windlass.testing import ScriptedModel

reporter = windlass.Agent(
    "reporter",
    model=ScriptedModel(lambda request: "Three builds, all green."),
    instructions="You write short reports.",
)


async def reports(runtime: windlass.Runtime, count: int) -> list[str]:
    """What the first sessions of the schedule came to."""
    nightly = await runtime.schedule(
        reporter, "nightly", every=0.2, prompt="Write the report of the night.", misfire="all", overlap="allow"
    )
    found: list[str] = []
    async for event in nightly.session.events(after=0):
        if isinstance(event, OccurrenceDelivered) and event.outcome == "begun":
            session = await runtime.get(event.session_id)
            await session.wait_idle()
            found.append((await session.result()).text)
        if len(found) == count:
            break
    return found


async def main() -> None:
    async with windlass.open("reports.db", agents=[reporter]) as runtime:
        print("one process:", *await reports(runtime, 1))
    # The process is gone for a while; what was missed is made up for.
    async with windlass.open("reports.db", agents=[reporter]) as runtime:
        print("the next one:", len(await reports(runtime, 4)), "reports")
        nightly = await runtime.get("nightly")
        plan = (await nightly.state()).schedule
        print("each once:", plan.begun >= 4)


if __name__ == "__main__":
    asyncio.run(main())
