"""Tools that come to a session while it lives: mounted ones, and clients of this process that serve their calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.tools.toolset import MountReceived, ToolBody
from windlass.runtime.bind.local_code import weighed
from windlass.runtime.bind.mounted_tools import tools_of
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.host.opener import Opener
from windlass.runtime.host.slot_table import Slots
from windlass.store.base import Key

from .sender import Sender


class Mounts:
    """Mounts tools, and keeps count of the clients that run them here."""

    def __init__(self, slots: Slots, opener: Opener, sender: Sender, tools: ToolRunners) -> None:
        self._slots = slots
        self._opener = opener
        self._sender = sender
        self._tools = tools

    async def mount(self, key: Key, tools: Sequence[Any], *, command_id: str, actor: str) -> None:
        """Offers a session more tools, or newer ones, from its next turn on. Raises `UsageError` if tools of this
        process are to be mounted and another process drives the session."""
        made = tools_of(tools)
        if not made:
            raise UsageError("mount() needs at least one tool")
        self._tools.check(made)
        here = await self._opener.ensure_driven(key) is not None
        if not here and any(tool.options.runs != "client" for tool in made):
            raise UsageError(
                f"session {key.session!r} is not driven here ({await self._opener.why_not(key)}), so code of this "
                "process cannot run in it: mount an external_tool there, and run it with session.serve(...)"
            )
        if here:
            local_code = self._slots.at(key).local_code
            local_code.mounting[command_id] = local_code.bring(made)
        body = ToolBody(tools=tuple(tool.text for tool in made))
        specs = tuple(weighed(tool) for tool in made)
        try:
            await self._sender.send(key, MountReceived(command_id=command_id, actor=actor, tools=specs, body=body))
        finally:
            slot = self._slots.at(key)
            slot.local_code.mounting.pop(command_id, None)
            if slot.driven is not None and not slot.driven.owner.busy:
                slot.local_code.forget_code(slot.driven.owner.state)
            self._slots.forget(slot)

    def clients_came(self, key: Key, tools: Iterable[str]) -> None:
        """Clients in this process run these tools of a session from now on: its calls wait for them."""
        clients = self._slots.at(key).local_code.clients
        for name in tools:
            clients[name] = clients.get(name, 0) + 1

    def clients_went(self, key: Key, tools: Iterable[str]) -> None:
        """They are gone: what they have not done ends the run `asked`, for others to do."""
        slot = self._slots.at(key)
        clients = slot.local_code.clients
        for name in tools:
            clients[name] -= 1
            if not clients[name]:
                del clients[name]
        if not clients:
            slot.local_code.handed_on.clear()
        if slot.driven is not None:
            slot.driven.driver.clients_changed()
        self._slots.forget(slot)

    def handed_on(self, key: Key, call_id: str) -> None:
        """A client here has handed a call to somebody else, who will give the result."""
        self._slots.at(key).local_code.handed_on.add(call_id)
