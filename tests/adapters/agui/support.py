"""Runs as a client asks for them, and their events as the published types read them."""

from __future__ import annotations

import functools
import json
from typing import Any

from tests.server.support import Client, Said


@functools.cache
def _reader() -> Any:
    from ag_ui.core import Event
    from pydantic import TypeAdapter

    return TypeAdapter(Event)


def parsed(event: dict[str, Any]) -> str:
    """The type of an event that the published types take whole, with nothing in it that they do not know."""
    read = _reader().validate_python(event)
    assert not read.model_extra, event
    assert read.model_dump(by_alias=True, exclude_none=True, mode="json") == event
    return str(event["type"])


def user(name: str, content: Any) -> dict[str, Any]:
    return {"id": name, "role": "user", "content": content}


async def asked_to_run(client: Client, *messages: dict[str, Any], agent: str = "teller", **more: Any) -> Said:
    body = {"threadId": "march", "runId": "r", "messages": list(messages), **more}
    return await client.ask("POST", f"/v1/ag-ui/{agent}", json=body)


async def run(client: Client, *messages: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """The events of a run, each parsed."""
    said = await asked_to_run(client, *messages, **more)
    assert said.status == 200, said
    events = [json.loads(line[6:]) for line in said.body.decode().split("\n") if line.startswith("data: ")]
    for event in events:
        parsed(event)
    return events


def resume(name: str, payload: Any = None, status: str = "resolved") -> list[dict[str, Any]]:
    return [{"interruptId": name, "status": status, **({"payload": payload} if payload is not None else {})}]


def interrupts(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = events[-1]["outcome"]["interrupts"]
    return found


def text(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
