"""Slash commands that clients bring along: whoever names one has its client run it. They live as long as the client
sits there, and nothing of them is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError
from windlass.events.values.blocks import JsonObject

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.adapters.copilot.session_feed import SessionFeed
    from windlass.protocol.json_rpc.rpc_peer import RpcPeer


def execute(host: CopilotHost, feed: SessionFeed, text: str) -> Coroutine[Any, Any, JsonObject] | None:
    """What runs a slash command, if a text is one that a client has."""
    name, _, args = text.removeprefix("/").partition(" ")
    if not text.startswith("/") or not any(name in seat.commands for seat in feed.all_seats):
        return None
    return perform(host, feed, name, args.strip(), text)


async def perform(host: CopilotHost, feed: SessionFeed, name: str, args: str, text: str) -> JsonObject:
    """Has a client run its command, and waits until it says that it did, or what went wrong."""
    request_id = f"command-{host.runtime.ports.fresh_id()}"
    done = host.put_form(request_id)
    feed.tell("command.queued", {"requestId": request_id, "command": text})
    asked = {"requestId": request_id, "command": text, "commandName": name, "args": args}
    event = feed.view.ephemeral_of("command.execute", asked)
    for seat in feed.all_seats:
        if name in seat.commands:
            seat.tell(event)
    try:
        result: JsonObject = await done
    finally:
        host.forms.pop(request_id, None)
        feed.tell("command.completed", {"requestId": request_id})
    return result


async def completed(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """A client has run its command."""
    waiting: asyncio.Future[JsonObject] | None = host.forms.get(str(params["requestId"]))
    if waiting is None or waiting.done():
        return {"success": False}
    error = params.get("error")
    waiting.set_result({"error": error} if error else {})
    return {"success": True}


async def run(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Runs a command by its name."""
    feed = host.feeds[str(params["sessionId"])]
    name, args = (
        str(params.get("commandName") or params.get("name")),
        str(params.get("args") or params.get("input") or ""),
    )
    running = execute(host, feed, f"/{name} {args}".strip())
    if running is None:
        raise UsageError(f"no client here has the command {name!r}")
    return await running


async def queue(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """Runs a command as it was typed, and waits for nothing."""
    feed = host.feeds[str(params["sessionId"])]
    running = execute(host, feed, str(params["command"]))
    if running is None:
        raise UsageError(f"no client here has the command {params['command']!r}")
    host.spawn(running)
    return {"queued": True}


async def listed(host: CopilotHost, peer: RpcPeer, params: dict[str, Any]) -> JsonObject:
    """The commands that clients have brought."""
    feed = host.feeds[str(params["sessionId"])]
    commands = {name: told for seat in feed.all_seats for name, told in seat.commands.items()}
    return {
        "commands": [
            {"name": name, "description": told, "kind": "client", "allowDuringAgentExecution": True}
            for name, told in sorted(commands.items())
        ]
    }


METHODS = {
    "session.commands.handlePendingCommand": completed,
    "session.commands.execute": run,
    "session.commands.enqueue": queue,
    "session.commands.list": listed,
}
