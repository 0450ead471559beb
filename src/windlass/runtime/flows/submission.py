"""The tool `submit_nodes`: a child session adds nodes to the workflow that it works for. All that is wrong with them is
told to its model at once, and nothing is added then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from windlass.events.base import Command
from windlass.events.commands import CommandRefused
from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.tools.calls import ResultBody
from windlass.events.trees.growth import NodesReceived
from windlass.events.values.blocks import JsonObject, Text
from windlass.kernel.parts.tools import labels
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key
from windlass.tools.planes.outcome import Outcome, failed

from .coordination import SUBMIT, budget_left, room_left

if TYPE_CHECKING:
    from windlass.runtime.host.ports import Ports
    from windlass.runtime.owner.owner import Owner
    from windlass.store.base import Store

Send = Callable[[Key, Command], Awaitable[None]]
LOOK_MS = 50
DESCRIPTION = (
    "Add nodes to the workflow that you work for, while it runs. Each has a name, a kind (spawn, verify, classify, "
    "loop, map, tournament, reduce, gate, tool, phase), and what its kind needs: agent and task, or reducer and needs. "
    "`needs` names the nodes whose outputs it works on; a task may speak of them as {name}. `before` names nodes that "
    "have not begun and are to wait for the new ones. If anything is wrong, all of it is told and nothing is added."
)
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "nodes": {"type": "array", "minItems": 1, "items": {"type": "object"}, "description": "The new nodes."},
        "before": {"type": "array", "items": {"type": "string"}, "description": "Nodes that wait for them, too."},
    },
    "required": ["nodes"],
    "additionalProperties": False,
}
SUBMIT_TOOLS = {SUBMIT: (DESCRIPTION, PARAMETERS)}


class Submission:
    """Carries out the tool for one session. Done again after a crash: the command's id follows from the call's."""

    def __init__(self, owner: Owner, store: Store, ports: Ports, send: Send) -> None:
        self._owner = owner
        self._store = store
        self._ports = ports
        self._send = send

    async def perform(self, call_id: str, args: JsonObject) -> Outcome:
        """Adds the nodes, or says why not."""
        state = self._owner.state
        if state.parent_id is None:
            return _refused("this session works for no workflow: nothing can be added")
        try:
            command = self._command(call_id, args)
            key = Key(self._owner.key.tenant, state.parent_id)
            await self._send(key, command)
            await self._taken(key, command.command_id)
            there = (await LogReader(self._store).fold(key)).state
        except (Refused, UsageError, NotFound) as error:
            return _refused(str(error))
        told = f"added: {', '.join(node.name for node in command.nodes)}"
        lines = [told, room_left(there), budget_left(there)]
        text = "\n".join(line for line in lines if line)
        return Outcome(body=ResultBody(content=(Text(text=text),)), size=len(text))

    def _command(self, call_id: str, args: JsonObject) -> NodesReceived:
        from .flow_files import nodes_from

        state = self._owner.state
        return NodesReceived(
            command_id=f"nodes:{state.session_id}:{call_id}",
            actor=f"session:{state.session_id}",
            auth="none",
            nodes=nodes_from(args.get("nodes")),
            before=tuple(str(name) for name in args.get("before") or ()),
            session=state.session_id,
            labels=labels.told(state),
        )

    async def _taken(self, key: Key, command_id: str) -> None:
        """Waits until whoever drives the workflow has taken it. Raises `Refused` if it was refused there."""
        log = LogReader(self._store)
        while (seq := await log.taken_at(key, command_id)) is None:
            await self._ports.sleep_ms(LOOK_MS)
        event: Any = await log.event_at(key, seq)
        if isinstance(event, CommandRefused):
            raise Refused(event.code, event.message)


def _refused(told: str) -> Outcome:
    return failed("tool_arguments", told, "nothing was added")
