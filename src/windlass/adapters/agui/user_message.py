"""A message of a person's, with what the application says beside it, as the blocks of a prompt."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.commands import PromptBody
from windlass.events.values.blocks import Audio, Document, Image, InputBlock, ResourceLink, Text
from windlass.protocol.wire_commands import WireError

from .run_input import Json, RunInput

INLINE: dict[str, type[Image | Audio | Document]] = {"image": Image, "audio": Audio, "document": Document}


def prompt_of(given: RunInput, messages: list[tuple[int, Json]]) -> PromptBody:
    """What is said: the messages, then context and state of the application, which only the model is shown."""
    blocks: list[InputBlock] = []
    for at, message in messages:
        blocks += blocks_of(message.get("content"), f"$.messages[{at}].content")
    shown = "\n".join(block.text for block in blocks if isinstance(block, Text))
    beside = _beside(given)
    return PromptBody(content=(*blocks, *beside), displayed=shown if beside else None)


def _beside(given: RunInput) -> list[Text]:
    said = [f"{entry.description}: {entry.value}" for entry in given.context or ()]
    own = {key: value for key, value in given.state.items() if key != "task"} if isinstance(given.state, dict) else None
    state = given.state if own is None else own
    if state not in (None, {}, []):
        said.append(f"State of the application: {msgspec.json.encode(state).decode()}")
    return [Text(text="\n".join(("From the application:", *said)))] if said else []


def blocks_of(content: Any, path: str) -> list[InputBlock]:
    """The blocks of a content. Raises `WireError` for a part that cannot be given to a model."""
    if isinstance(content, str):
        return [Text(text=content)]
    if not isinstance(content, list):
        raise WireError(path, "a content is a text or a list of parts")
    return [_block(part, f"{path}[{at}]") for at, part in enumerate(content)]


def _block(part: Any, path: str) -> InputBlock:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(text=part["text"])
    source = part.get("source") if isinstance(part, dict) else None
    if isinstance(source, dict) and source.get("type") == "data" and kind in INLINE:
        try:
            return INLINE[kind](media_type=str(source["mimeType"]), data=str(source["value"]))
        except (KeyError, ValueError):
            raise WireError(f"{path}.source", "give `mimeType`, and the bytes as base64 in `value`") from None
    if isinstance(source, dict) and source.get("type") == "url":
        address = str(source.get("value"))
        return ResourceLink(uri=address, name=address)
    known = f"text, an address, or the bytes of {', '.join(INLINE)}"
    raise WireError(path, f"a part of type {str(kind)[:40]!r} is not taken so: send {known}")


def text_of(content: Any, path: str) -> str:
    """The text of a result. Raises `WireError` for one that holds something else."""
    blocks = blocks_of(content, path)
    if not all(isinstance(block, Text) for block in blocks):
        raise WireError(path, "the result of a tool is a text")
    return "\n".join(block.text for block in blocks if isinstance(block, Text))
