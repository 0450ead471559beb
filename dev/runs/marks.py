"""Labels: what joins a session, what is asked about because of it, what a person takes away, and a quarantine."""

from __future__ import annotations

from typing import Any

import windlass
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.values.setup import SessionOptions
from windlass.testing.scripted import call

from .stage import QUICK, Stage, scripted


@windlass.tool(contract="pure", traits=("read",), labels=("private:payroll",))
def payroll(path: str) -> str:
    "Reads a file of the payroll."
    return "Ada 17"


@windlass.tool(contract="pure", traits=("read",), labels=("untrusted:web",))
def page(url: str) -> str:
    "Reads a page of the web."
    return "buy now"


@windlass.tool(traits=("egress",))
def post(text: str) -> str:
    "Sends a text to everybody."
    return "posted"


def agent_of(*turns: Any, **more: Any) -> windlass.Agent:
    return windlass.Agent("marked", model=scripted(*turns), tools=[payroll, page, post], settings=QUICK, **more)


async def three_legs(stage: Stage) -> None:
    """The legs come together in one batch and are judged again; a person agrees once, then takes a label away."""
    both = [call("payroll", path="secrets.csv"), call("post", text="hello")]
    agent = agent_of(call("page", url="https://example.org/"), both, call("post", text="more"), "done")
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "marked")
        await session.prompt("go", labels=["untrusted:mail"])
        await session.result()
        (asked,) = await session.requests()
        await session.approve(asked, actor="ada")
        await session.result()
        await session.declassify("untrusted:web", "untrusted:mail", reason="both were written here", actor="ada")
        await session.result()
        events = [record.event async for record in session.records()]
        assert [event.changed for event in events if isinstance(event, PermissionRequested)] == [("labels",), ()]


async def by_policy(stage: Stage) -> None:
    """A policy denies the third leg, or does not mind."""
    for trifecta in ("deny", "allow"):
        policy = windlass.Policy(default="allow", trifecta=trifecta)
        legs = [call("page", url="x"), call("payroll", path="y")]
        agent = agent_of(legs, call("post", text="z"), "done", policy=policy)
        async with stage.open(agent, store=trifecta) as rt:
            session = await stage.session(rt, agent, f"legs-{trifecta}")
            await session.prompt("go")
            await session.result()


async def quarantined(stage: Stage) -> None:
    """A session that only reads, whatever its policy says."""
    agent = agent_of([call("page", url="x"), call("post", text="y")], "done", policy=windlass.ALLOW_ALL)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "quarantined", options=SessionOptions(quarantine=True))
        await session.prompt("go")
        await session.result()


SCENARIOS = {"three_legs": three_legs, "legs_by_policy": by_policy, "quarantined": quarantined}
