"""The tools of one session: its agent's, and those that were mounted while it lived. Which of them are there after a
change of owner is found out here, by name and digest, and never guessed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import Refused
from windlass.events.stored import codec
from windlass.events.tools.toolset import MountReceived
from windlass.events.values.tools import ToolSpec
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key
from windlass.tools.tool import AnyTool, as_tool

from .local_code import LocalCode, client_tool, weighed

if TYPE_CHECKING:
    from .bound_agent import Bound

CLIENT = "client:"
"""How the source of a tool begins that a client declared."""


def tools_of(things: Iterable[Any]) -> list[AnyTool]:
    """Tools as they may be given: tools, plain functions, names of built-in ones."""
    from .builtin_tools import resolved

    return [as_tool(thing) for thing in resolved(things)]


def mounted_by_client(command: MountReceived, state: State, bound: Bound) -> MountReceived:
    """A mount as a client may ask for it: whatever it says, its tools are run by clients. What the author gave cannot
    be replaced by it, not even if it was taken away."""
    texts = {text.name: text for text in command.body.tools} if command.body is not None else {}
    source = f"{CLIENT}{command.actor or command.source or 'unknown'}"
    made = []
    for spec in command.tools:
        known = state.toolset.tools.get(spec.name)
        if spec.name in bound.tools or (known is not None and not known.source.startswith(CLIENT)):
            raise Refused("collision", f"the tool {spec.name!r} is not a client's to replace: give yours another name")
        if spec.name not in texts:
            raise Refused("no_content", f"tool {spec.name!r} needs a description and a schema to be offered")
        made.append(client_tool(spec, texts[spec.name], source))
    return msgspec.structs.replace(command, tools=bound.local_code.bring(made))


def present(bound: Bound, state: State, local_code: LocalCode) -> tuple[ToolSpec, ...]:
    """The tools that a session has under the code that is here: what was mounted stays if its code is here or a
    client runs it, and what was taken away stays away as long as the agent is the recorded one, or the tool itself is
    what it was."""
    own = {tool.name: tool for tool in bound.tools.values()}
    specs: dict[str, ToolSpec] = {}
    for name, spec in state.toolset.tools.items():
        tool = own.get(name)
        if (name, spec.digest) in local_code.code or (tool is None and spec.runs == "client"):
            specs[name] = spec
        elif (code := tool or local_code.named(name)) is not None:
            specs[name] = weighed(code)
    if bound.agent.digest != state.setup.agent.digest:
        away = state.toolset.away
        more = {name: weighed(tool) for name, tool in own.items() if name not in specs}
        specs.update({name: spec for name, spec in more.items() if away.get(name) != spec.digest})
    return tuple(specs.values())


async def recall_clients(bound: Bound, state: State, local_code: LocalCode, log: LogReader, key: Key) -> None:
    """Finds in the log what clients declared of the tools that they mounted."""
    specs = {spec.name: spec for change in state.toolset.staged for spec in change.tools} | state.toolset.tools
    wanted = {
        (spec.name, spec.digest): spec
        for spec in specs.values()
        if spec.runs == "client" and spec.name not in bound.tools and (spec.name, spec.digest) not in local_code.code
    }
    if not wanted:
        return
    async for sealed in log.appends(key):
        if b'"mount.received"' not in sealed.data:
            continue
        event = codec.decode(sealed.data).events[0]
        if not isinstance(event, MountReceived) or event.body is None:
            continue
        texts = {text.name: text for text in event.body.tools}
        for spec in event.tools:
            if (spec.name, spec.digest) in wanted and spec.name in texts:
                local_code.code[(spec.name, spec.digest)] = client_tool(spec, texts[spec.name], spec.source)
