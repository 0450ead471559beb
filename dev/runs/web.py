"""Pages that the built-in fetch is asked for: one that a person denies, one that leads where no agent goes, one that is
no address."""

from __future__ import annotations

import windlass
from windlass.events.tools.permissions import PermissionRequested
from windlass.testing.scripted import call

from .stage import QUICK, Stage, scripted


async def web(stage: Stage) -> None:
    """Each is asked about by its address, but for the last, which cannot be fetched at all."""
    model = scripted(
        [
            call("fetch", url="https://example.com/news?q=1"),
            call("fetch", url="http://169.254.169.254/latest/meta-data/"),
            call("fetch", url="http://me:word@example.com/"),
        ],
        "done",
    )
    agent = windlass.Agent("reader", model=model, tools=["fetch"], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "web")
        await session.prompt("what is new?")
        await session.result()
        news, metadata = await stage.until(session, PermissionRequested, 2)
        await session.deny(news.request_id, "not now", actor="ada")
        await session.approve(metadata.request_id, digest=metadata.digest, actor="ada")
        await session.result()


SCENARIOS = {"web": web}
