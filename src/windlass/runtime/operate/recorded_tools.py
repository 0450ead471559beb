"""Results of calls out of a log, and tools that answer from them and have no effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.events.base import Event
from windlass.events.tools.calls import (
    ResultBody,
    ResultReceived,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolRequested,
    ToolSettled,
    ToolTimedOut,
)
from windlass.events.values.blocks import ResultBlock, Terminal, Text
from windlass.kernel.render import outcome
from windlass.models.base import BlobReader
from windlass.tools.canonical_json import digest
from windlass.tools.context import ToolError
from windlass.tools.planes.results import ToolResult
from windlass.tools.tool import tool

Ended = ToolFinished | ResultReceived | ToolTimedOut | ToolSettled | ToolOutcomeUnknown
"""How a call that had begun can have ended."""
Results = dict[tuple[str, str], list[Ended]]
"""How calls ended, by tool and arguments, in their order."""


def results_of(events: Mapping[int, Event]) -> Results:
    """What each call got, by tool and arguments."""
    asked = {event.call_id: event for event in events.values() if isinstance(event, ToolRequested)}
    ends: dict[str, Ended] = {}
    for event in events.values():
        if isinstance(event, Ended) and _is_result(event) and event.call_id in asked:
            ends[event.call_id] = event
    results: Results = {}
    for call_id, end in ends.items():
        call = asked[call_id]
        if call.body is not None:
            results.setdefault((call.tool, digest(call.body.args or {})), []).append(end)
    return results


def _is_result(event: Ended) -> bool:
    """Whether the model was given this as the result of the call."""
    if isinstance(event, ToolOutcomeUnknown | ToolTimedOut):
        return not event.settle
    return not (isinstance(event, ToolSettled) and event.outcome == "run_again")


def recorded_tool(made: Any, results: Results, fetch: BlobReader) -> Any:
    """A tool that answers from the recording and has no effects. Kernel tools and the like stay what they are."""
    if made.function is None:
        return made
    left = {name: list(given) for name, given in results.items()}

    async def answer(**args: Any) -> ToolResult:
        waiting = left.get((made.name, digest(args)))
        if not waiting:
            raise ToolError("this call was not made in the recorded session, and tools do not run in a replay")
        return await _again(waiting.pop(0) if len(waiting) > 1 else waiting[0], fetch)

    answer.__name__ = made.name
    return tool(
        name=made.name,
        description=made.description,
        parameters=made.parameters.schema,
        contract="pure",
        kind=made.options.kind,
        traits=made.options.traits,
        alias=made.options.alias,
    )(answer)


async def _again(end: Ended, fetch: BlobReader) -> ToolResult:
    """The result that a call got then, block by block; of a large one the whole, so that it is shown in the same part
    and can be read on."""
    content, is_error = outcome(end)
    body: ResultBody | None = getattr(end, "body", None)
    whole = await fetch(body.whole) if body is not None and body.whole is not None else None
    value: Any = list(content) or ""
    if whole is not None:
        value = _of_whole(whole, content)
    return ToolResult(value=value, ok=not is_error, error_code=getattr(end, "error_code", None))


def _of_whole(whole: bytes, content: tuple[ResultBlock, ...]) -> Any:
    try:
        text = whole.decode()
    except UnicodeDecodeError:
        return whole
    media = [block for block in content if not isinstance(block, Text | Terminal)]
    return [Text(text=text), *media] if media else text
