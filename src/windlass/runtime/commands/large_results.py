"""Results that clients and people send: a large one goes to a blob and leaves a preview, as one of a tool here does."""

from __future__ import annotations

import msgspec

from windlass.events.base import Command
from windlass.events.errors import Refused
from windlass.events.tools.calls import ResultReceived, ToolSettled
from windlass.events.values.blocks import Terminal, Text
from windlass.kernel.state import State
from windlass.models.tokens import estimate_block
from windlass.runtime.context.recall_tools import hint
from windlass.tools.planes.large_output import LARGE_BYTES
from windlass.tools.planes.results import block_results
from windlass.tools.types.plain_values import NotPlain

LARGE_CHARS = LARGE_BYTES // 4
"""Text below this is not large in bytes, whatever its characters are."""


def apart(command: Command, state: State) -> tuple[Command, dict[str, bytes] | None]:
    """The command as the log keeps it, and what is to be kept beside it."""
    if not isinstance(command, ResultReceived | ToolSettled) or command.body is None:
        return command, None
    body = command.body
    if sum(len(block.text) for block in body.content if isinstance(block, Text | Terminal)) <= LARGE_CHARS:
        return command, None
    try:
        rendering = block_results(body.content)
    except NotPlain as error:
        raise Refused("malformed", f"this result has no form: {error}") from error
    if rendering.whole is None:
        return command, None
    content = rendering.content
    if "read_result" in state.toolset.tools:
        content = (*content, hint(rendering.whole_size, command.call_id))
    blobs = {blob.ref.digest: blob.read() for blob in rendering.blobs}
    for blob in rendering.blobs:
        blob.close()
    made = msgspec.structs.replace(
        command,
        tokens=sum(estimate_block(block) for block in content),
        body=msgspec.structs.replace(body, content=content, whole=rendering.whole),
    )
    if isinstance(made, ResultReceived):
        size = sum(len(block.text) for block in content if isinstance(block, Text))
        made = msgspec.structs.replace(made, bytes=size)
    return made, blobs
