"""How a session goes on: prompts that wait or steer, signals, timers, sleep, waking, interrupts, changes."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec

import windlass
from windlass.events.changes import ChangeMode, ChangeModel, ChangeSettings, ChangeTask
from windlass.events.commands import QueueChanged
from windlass.events.runs import RunSlept, RunStarted
from windlass.events.schedules import OccurrenceDelivered
from windlass.events.timers import TimerSet
from windlass.events.tools.calls import ToolStarted
from windlass.events.turns import ModelRequested, RetryPlanned
from windlass.events.values.blocks import (
    AnyAttachment,
    DirectoryAttachment,
    Document,
    DocumentAttachment,
    FileAttachment,
    Image,
    ImageAttachment,
    LineRange,
    Position,
    ReferenceAttachment,
    SelectionAttachment,
)
from windlass.events.values.setup import Origin, Task, Todo
from windlass.testing.model_server import fault, say
from windlass.testing.scripted import call, hang, pause

from .stage import QUICK, Stage, priced, scripted
from .tools import PDF, PNG

HOUR_MS = 3_600_000


def lingering() -> tuple[Any, asyncio.Event]:
    """A tool that ends when it is let go."""
    released = asyncio.Event()

    @windlass.tool(contract="pure")
    async def linger() -> str:
        "Takes a while."
        await released.wait()
        return "done"

    return linger, released


async def queue(stage: Stage) -> None:
    """Prompts while a run goes on: queued, steering, put in order, dropped, held and released."""
    linger, released = lingering()
    model = scripted(
        call("linger"), call("linger"), "first and quick done", "third done",
        ["writing ", hang()], "after", "again", "x",
    )  # fmt: skip
    agent = windlass.Agent("worker", model=model, tools=[linger], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "queue")
        await session.prompt("first")
        await session.prompt("second", origin=Origin(kind="schedule", name="nightly", hidden=True))
        await session.prompt("third", origin=Origin(kind="client", name="editor"))
        await session.prompt("quick", behavior="steer", origin=Origin(kind="session", name="other"))
        queued = await stage.until(session, QueueChanged, 3)
        ids = [each for change in queued if change.operation == "queued" for each in change.prompt_ids]
        await session.edit_queue(*ids[1:])
        released.set()
        await session.wait_idle()
        await session.prompt("write")
        await stage.heard(session, "writing ")
        await session.prompt("wait for it", origin=Origin(kind="skill", name="s"))
        await session.interrupt("stop writing")
        await session.wait_idle()
        await session.wake()
        await session.wait_idle()
        await session.wake()
        await session.cancel()
        await session.interrupt()
        await session.prompt("attached", attachments=attached(stage))
        await session.result()


def attached(stage: Stage) -> tuple[AnyAttachment, ...]:
    """One attachment of each kind."""
    place = stage.folder / "attached"
    (place / "src").mkdir(parents=True)
    (place / "a.py").write_text("\n".join(f"line {n}" for n in range(9)))
    (place / "src" / "b.py").write_text("x = 1\n")
    return (
        FileAttachment(path=str(place / "a.py"), name="a", lines=LineRange(start=2, end=5)),
        DirectoryAttachment(path=str(place / "src"), name="sources"),
        SelectionAttachment(
            path="b.py", name="b", text="x = 1", start=Position(line=3, character=1), end=Position(line=4, character=9)
        ),
        ReferenceAttachment(kind="issue", url="https://example.com/1", number=1, title="Broken", state="open"),
        ReferenceAttachment(kind="pull_request", url="https://example.com/2"),
        ReferenceAttachment(kind="discussion", url="https://example.com/3"),
        ImageAttachment(image=Image(media_type="image/png", data=PNG), name="a picture"),
        DocumentAttachment(document=Document(media_type="application/pdf", data=PDF), name="a paper"),
    )


async def signals(stage: Stage) -> None:
    """Signals of every urgency, and what became of each."""
    linger, released = lingering()
    agent = windlass.Agent(
        "guard", model=scripted(call("linger"), "done", "run by it", "x", "y"), tools=[linger], settings=QUICK
    )
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "signals")
        await session.prompt("watch")
        await stage.until(session, RunStarted)
        for _ in range(2):
            await session.signal("mail", "you have mail", payload={"from": "ada"}, source="imap", dedupe_key="m1")
        await session.signal("fire", "it burns", urgency="critical")
        await session.signal("rain", urgency="high")
        await session.signal("weather", urgency="low")
        released.set()
        await session.wait_idle()
        await session.signal("alarm", "get up", urgency="critical")
        await session.wait_idle()


async def cut_off(stage: Stage) -> None:
    """An answer that is under way and does not come: a critical signal has it asked for again."""
    agent = windlass.Agent("guard", model=scripted(hang(), "put out"), settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "cut_off")
        await session.prompt("watch")
        await stage.until(session, ModelRequested)
        await session.signal("fire", "it burns", urgency="critical")
        await session.wait_idle()


async def schedule(stage: Stage) -> None:
    """A schedule that is steered: it begins work, meets work that is not done, and looks for a session in vain."""
    agent = windlass.Agent("reporter", model=scripted(hang(), "done"), settings=QUICK)
    async with stage.open(agent) as rt:
        nightly = await rt.schedule(agent, "schedule", every=3600, prompt="report")
        await nightly.run_now()
        await stage.until(nightly.session, OccurrenceDelivered)
        await nightly.run_now()
        await stage.until(nightly.session, OccurrenceDelivered, count=2)
        await nightly.pause()
        await nightly.resume()
        await nightly.remove()
        lost = await rt.schedule(agent, "schedule_lost", every=3600, session="nowhere", signal="pulse")
        await lost.run_now()
        await stage.until(lost.session, OccurrenceDelivered)


async def sleep(stage: Stage) -> None:
    """Timers, a run that sleeps until one fires, one that is woken, one that is cancelled, a provider's long wait."""
    model = priced(
        call("wait", for_ms=40, note="a moment"), "sleeping", "awake", call("wait", for_ms=HOUR_MS), "asleep", "woken",
        call("wait", for_ms=HOUR_MS), "asleep again", "z",
    )  # fmt: skip
    agent = windlass.Agent("sleeper", model=model, tools=["wait"], settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "sleep")
        await session.prompt("wait")
        await stage.until(session, RunStarted, 2)
        await session.wait_idle()
        await session.prompt("wait long")
        await stage.until(session, RunSlept, 2)
        await session.wake()
        await session.wait_idle()
        await session.prompt("wait long again")
        await stage.until(session, TimerSet, 3)
        await session.wait_idle()
        await session.cancel("no need")
        await session.wait_idle()
    async with stage.serving(fault("429_hour"), say("at last"), fault("503_retry_after"), say("soon")) as server:
        agent = windlass.Agent("patient", model=stage.model(server), settings=QUICK)
        async with stage.open(agent, store="limited") as rt:
            session = await stage.session(rt, agent, "sleep_limited")
            await session.prompt("go")
            await stage.until(session, RunSlept)
            await session.wake()
            await session.wait_idle()
            await session.prompt("again")
            await stage.until(session, RetryPlanned, 2)
            await session.wake()
            await session.wait_idle()


async def changes(stage: Stage) -> None:
    """Everything that a client may change in a session."""
    agent = windlass.Agent("worker", model=scripted("one", "two"), settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "changes", title="a title", metadata={"team": "a"})
        state = await session.state()
        model = msgspec.structs.replace(state.current_model, max_output_tokens=999, window_tokens=99_000)
        await session.change(ChangeModel(model=model))
        await session.change(ChangeMode(mode="autopilot"))
        await session.set_mode("plan")
        await session.set_mode("interactive")
        task = Task(
            goal="g", criteria=("c",), plan="first this", current_step="s", progress="p", scratchpad="x",
            blocked_on="b", todos=tuple(Todo(todo_id=str(n), content="c", status=s) for n, s in enumerate(STATUSES)),
        )  # fmt: skip
        await session.change(ChangeTask(task=task))
        await session.change(ChangeTask(task=msgspec.structs.replace(task, plan="then that")))
        await session.change(ChangeTask(task=msgspec.structs.replace(task, plan="")))
        settings = msgspec.structs.replace(state.setup.settings, turns_max=9, on_busy="steer", tool_order="sequential")
        await session.change(ChangeSettings(settings=settings))
        await stage.said(session, "go on")
        await session.close()


STATUSES: tuple[Literal["pending", "in_progress", "completed", "failed"], ...] = (
    "in_progress", "completed", "failed", "pending",
)  # fmt: skip


async def stopped(stage: Stage) -> None:
    """Runs that are interrupted and cancelled while a model writes and while a tool runs."""
    model = priced(
        ["so far ", pause(10), "and ", hang()], "again", ["writing ", hang()], call("hold"), "a", call("hold"), "b"
    )

    @windlass.tool
    async def hold(ctx: windlass.ToolContext) -> str:
        "Holds on."
        ctx.progress("holding")
        await asyncio.sleep(30)
        return "never"

    agent = windlass.Agent("worker", model=model, tools=[hold], policy=windlass.ALLOW_ALL, settings=QUICK)
    async with stage.open(agent) as rt:
        session = await stage.session(rt, agent, "stopped")
        await session.prompt("write")
        await stage.heard(session, "and ")
        await session.interrupt("enough")
        await session.wait_idle()
        await stage.said(session, "again")
        await session.prompt("write")
        await stage.heard(session, "writing ")
        await session.cancel("enough")
        await session.wait_idle()
        await session.prompt("hold")
        await stage.until(session, ToolStarted)
        await session.interrupt("enough")
        await session.wait_idle()
        await stage.said(session, "go on")
        await session.prompt("hold")
        await stage.until(session, ToolStarted, 2)
        await session.cancel("enough")
        await session.wait_idle()


SCENARIOS = {
    "queue": queue,
    "signals": signals,
    "cut_off": cut_off,
    "schedule": schedule,
    "sleep": sleep,
    "changes": changes,
    "stopped": stopped,
}
