"""Tools of MCP servers as the log has them, for whoever resumes a session: what waits for a person's answer, or was cut
off, is found as it was, before any server is started again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from windlass.events.errors import UsageError
from windlass.events.stored import codec
from windlass.events.tools.mcp import McpConnected, McpTool
from windlass.events.tools.toolset import MountReceived
from windlass.events.values.tools import ToolSpec
from windlass.mcp.offered_tools import SOURCE, recalled
from windlass.runtime.bind.builtin_tools import CATALOGUE_TOOLS, builtin
from windlass.runtime.bind.local_code import LocalCode
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key

if TYPE_CHECKING:
    from windlass.kernel.state import State

MARKS = (b'"mount.received"', b'"mcp.connected"')


async def recall(servers: Iterable[str], state: State, local_code: LocalCode, log: LogReader, key: Key) -> None:
    """Brings the tools of these servers that a session has, out of its log."""
    sources = {f"{SOURCE}{name}" for name in servers}
    wanted = {
        (spec.name, spec.digest)
        for spec in _known(state)
        if spec.source in sources and (spec.name, spec.digest) not in local_code.code
    }
    local_code.bring(builtin(name) for name in CATALOGUE_TOOLS if name in state.toolset.tools)
    if not wanted:
        return
    abouts: dict[str, McpTool] = {}
    async for sealed in log.appends(key):
        if not any(mark in sealed.data for mark in MARKS):
            continue
        event = codec.decode(sealed.data).events[0]
        if isinstance(event, McpConnected) and event.body is not None:
            abouts.update({tool.name: tool for tool in event.body.tools})
        elif isinstance(event, MountReceived) and event.body is not None:
            _bring(event, wanted, abouts, local_code)


def _known(state: State) -> list[ToolSpec]:
    staged = [spec for change in state.toolset.staged for spec in change.tools]
    return [*state.toolset.tools.values(), *staged]


def _bring(
    event: MountReceived, wanted: set[tuple[str, str]], abouts: dict[str, McpTool], local_code: LocalCode
) -> None:
    texts = {text.name: text for text in event.body.tools} if event.body is not None else {}
    for spec in event.tools:
        about = abouts.get(spec.name)
        if (spec.name, spec.digest) not in wanted or spec.name not in texts or about is None:
            continue
        try:
            local_code.bring([recalled(spec, texts[spec.name], about)])
        except UsageError:
            continue  # it was fine once; whoever connects the server makes it anew
