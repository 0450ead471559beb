"""How blocks look to a model where its format has no place for them, and names and ids that every format accepts."""

from __future__ import annotations

import base64
import hashlib
import re
import string
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import (
    Audio,
    Data,
    Document,
    Image,
    InputBlock,
    Resource,
    ResourceLink,
    ResultBlock,
    Terminal,
    Text,
)
from windlass.events.values.items import ToolSchema

from .encoded_history import Blobs, sorted_json

TOOL_NAME_CHARS_MAX = 64
LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
ALNUM = string.ascii_letters + string.digits
EMPTY = "(empty)"
CONTINUE = "Continue."
START = "(start of the conversation)"
OUTPUT_NOTE = "Gives the final answer. Call it once, when the answer is complete."
GONE = "is no longer available"
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The kinds of pictures that most formats take."""
TEXT_MEDIA = ("text/", "application/json", "application/xml", "application/yaml")


def wire_call_id(call_id: str) -> str:
    """Our call id as every provider takes it: itself where it is legal, else a digest of it."""
    if LEGAL_ID.match(call_id):
        return call_id
    return "c-" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:38]


def alnum9(call_id: str) -> str:
    """Our call id as nine letters and digits, for endpoints that take nothing else."""
    value = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()[:12], "big")
    out = []
    for _ in range(9):
        value, digit = divmod(value, len(ALNUM))
        out.append(ALNUM[digit])
    return "".join(out)


def wire_tool_name(name: str) -> str:
    """A tool name in the history as every provider takes it: a model may have made up any name at all."""
    if LEGAL_NAME.match(name):
        return name
    clean = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:TOOL_NAME_CHARS_MAX]
    return clean if LEGAL_NAME.match(clean) else ("_" + clean)[:TOOL_NAME_CHARS_MAX]


def check_names(tools: tuple[ToolSchema, ...]) -> None:
    """Raises for a declared tool whose name a provider would refuse, or that is declared twice."""
    seen: set[str] = set()
    for tool in tools:
        if not LEGAL_NAME.match(tool.name):
            raise UsageError(
                f"tool name {tool.name!r} is not accepted by model providers: use letters, digits, '_' and '-', "
                f"at most {TOOL_NAME_CHARS_MAX}, not starting with a digit or '-'"
            )
        if tool.name in seen:
            raise UsageError(f"two tools are called {tool.name!r}: give one of them an alias")
        seen.add(tool.name)


def check_extra(extra: dict[str, Any], owned: frozenset[str]) -> None:
    """Raises for an extra setting that would override what we set ourselves."""
    taken = sorted(owned & set(extra))
    if taken:
        raise UsageError(f"extra settings {taken!r} are set by windlass itself: use the named settings instead")


def ordered_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields from outside, in an order of their own: how a caller wrote them must not show in the bytes."""
    return {name: canonical_value(value) for name, value in sorted(fields.items())}


def text_parameters(tool: ToolSchema) -> dict[str, object]:
    """The parameters of a tool that takes text, for formats that only know objects."""
    note = "The input of the tool, as plain text."
    if tool.grammar:
        note += f" It must follow this grammar: {sorted_json(tool.grammar).decode()}"
    return {
        "type": "object",
        "properties": {"input": {"type": "string", "description": note}},
        "required": ["input"],
        "additionalProperties": False,
    }


def object_schema(schema: dict[str, object]) -> dict[str, object]:
    """A tool's parameters as an object schema; a tool without any takes an empty object."""
    return schema if schema.get("type") == "object" else {"type": "object", "properties": {}, **schema}


def inline_data(block: Image | Audio | Document | Resource, blobs: Blobs) -> str | None:
    """The base64 of a block, inline or fetched; none if its bytes are gone."""
    if block.data is not None:
        return block.data
    if block.blob is None:
        return None
    if block.blob.digest not in blobs:
        raise UsageError(f"blob {block.blob.digest} cannot be read: give the request a `blobs` reader")
    return blobs[block.blob.digest]


def is_text_media(media_type: str | None) -> bool:
    return bool(media_type) and str(media_type).startswith(TEXT_MEDIA)


def decoded(data: str) -> str:
    """Base64 of a text document as text; damage shows as replacement characters."""
    try:
        return base64.b64decode(data).decode("utf-8", "replace")
    except ValueError:
        return f"({GONE})"


def as_text(block: InputBlock | ResultBlock) -> str | None:
    """A block as text, or none if it holds something that only a picture, sound or document part can carry."""
    kind = type(block)
    if kind is Text:
        return block.text  # type: ignore[union-attr]
    if isinstance(block, Terminal):
        ended = f"\n(exit code {block.exit_code})" if block.exit_code is not None else ""
        return f"{block.text}{ended}"
    if isinstance(block, Data):
        return sorted_json(block.value).decode()
    if isinstance(block, ResourceLink):
        about = f" - {block.description}" if block.description else ""
        return f"[{block.title or block.name}]({block.uri}){about}"
    if isinstance(block, Resource) and block.text is not None:
        return f"{block.uri}:\n{block.text}"
    return None


def gone(block: InputBlock | ResultBlock, why: str = GONE) -> str:
    """The note that stands where a block cannot."""
    name = getattr(block, "name", None) or getattr(block, "uri", None)
    return f"({type(block).__name__.lower()}{' ' + repr(name) if name else ''} {why})"


def system_text(instructions: str, knowledge: tuple[str, ...]) -> str:
    """Instructions and knowledge as one text, for formats with a single system text."""
    return "\n\n".join(part for part in (instructions, *knowledge) if part)


def canonical(value: dict[str, Any]) -> Any:
    """A value whose bytes do not depend on the order of its dictionaries."""
    return msgspec.Raw(sorted_json(value)) if value else {}


def canonical_value(value: Any) -> Any:
    """Any JSON value, its bytes independent of the order of dictionaries."""
    return msgspec.Raw(sorted_json(value))
