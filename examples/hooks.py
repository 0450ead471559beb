"""Code of your own at named points: it watches, changes and refuses. What it decided is in the log."""

from __future__ import annotations

import asyncio

import windlass
from windlass.events.hooks import HookRuled
from windlass.runtime.hooks.hook import Changed, Denied, Hook, Moment
from windlass.testing import ScriptedModel, call


@windlass.tool
def send(to: str, text: str) -> str:
    "Send a message."
    return f"sent to {to}: {text}"


seen: list[str] = []


def watch(moment: Moment) -> None:
    seen.append(f"{moment.tool} to {moment.value['to']}")


def sign(moment: Moment) -> Changed:
    return Changed(value={**moment.value, "text": moment.value["text"] + " -- the robot"})


def only_ours(moment: Moment) -> Denied | None:
    if moment.value["to"].endswith("@example.org"):
        return None
    return Denied(message="only example.org may be written to")


model = ScriptedModel(
    [
        call("send", to="ada@example.org", text="hello"),
        call("send", to="eve@elsewhere.example", text="hello"),
        "One was sent, one was refused.",
    ]
)
agent = windlass.Agent(
    "writer",
    model=model,
    tools=[send],
    hooks=[
        Hook(point="before_tool", kind="observe", run=watch),
        Hook(point="before_tool", kind="guard", run=only_ours, tool="send"),
        Hook(point="before_tool", kind="transform", run=sign, tool="send"),
    ],
)


async def main() -> None:
    async for event in agent.stream("Write to both."):
        match event:
            case HookRuled(ruling=ruling):
                print(f"{ruling.hook_id}: {ruling.outcome}")
            case windlass.ToolFinished(body=body) if body is not None:
                print(getattr(body.content[0], "text", ""))
            case windlass.ModelReplied(calls=0, body=body) if body is not None:
                print(getattr(body.blocks[0], "text", ""))
    print("watched:", ", ".join(sorted(seen)))


if __name__ == "__main__":
    asyncio.run(main())
