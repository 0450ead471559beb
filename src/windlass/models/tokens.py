"""How many tokens something will cost, estimated offline and corrected by what providers report.

No vocabulary is used: text is counted by classes of characters. Estimates plan budgets and compaction; what is paid
is always what the provider reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.events.values.blocks import (
    AnyBlock,
    Audio,
    BlobRef,
    CallSlot,
    Data,
    Document,
    GeneratedImage,
    Image,
    Reasoning,
    Refusal,
    Resource,
    ResourceLink,
    ServerTool,
    Terminal,
    Text,
    Value,
)
from windlass.events.values.items import (
    AssistantItem,
    AssistantPart,
    CallPart,
    HistoryItem,
    ImagePart,
    OutputSchema,
    ResultItem,
    ServerToolSchema,
    ToolSchema,
)

from .base import Request

ITEM_OVERHEAD_TOKENS = 4
"""Role markers and separators around each message."""
CALL_OVERHEAD_TOKENS = 8
"""Name, id and braces around each tool call."""
TOOL_OVERHEAD_TOKENS = 12
"""What a provider writes around each tool that it shows to the model."""

IMAGE_LOW_TOKENS = 85
IMAGE_UNKNOWN_TOKENS = 1_100
IMAGE_TOKENS_MAX = 4_800
PIXELS_PER_TOKEN = 750
"""Anthropic's documented rule; OpenAI's tiles and Gemini's fixed prices come out in the same region."""

PDF_PAGE_BYTES = 50_000
PDF_PAGE_TOKENS = 2_000
DOCUMENT_TOKENS_MAX = 1_000_000
AUDIO_BYTES_PER_SECOND = 16_000
AUDIO_TOKENS_PER_SECOND = 32

LONG_TEXT_CHARS = 400_000
"""Beyond this, text is judged by samples from its start, middle and end."""
SAMPLE_CHARS = 40_000

PIECES = (
    r"(?P<word>[A-Z]?[a-z]+|[A-Z]+)|(?P<digits>[0-9]+)|(?P<space>[ \t]{2,}|[\r\n]+[ \t]*)"
    r"|(?P<wide>[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+)"
    r"|(?P<letters>[\u0080-\u10ff\u1200-\u2e7f\ua000-\uabff\ufb00-\ufeff]+)"
    r"|(?P<marks>[!-/:-@\[-`{-~]+)|(?P<other>[^\s])"
)

TENTHS_PER_TOKEN = {"word": 90, "digits": 30, "space": 160, "wide": 13, "letters": 35, "marks": 20, "other": 5}
"""How many characters of a run one token covers, in tenths. A run costs at least one token."""

PLAIN_TOKENS = re.compile(
    r" ?(?:[a-z]{1,9}|[!-/:-@\[-`{-~]{1,2}|[0-9]{1,3}|(?<![A-Z])[A-Z][a-z]{1,8}|[A-Z]{1,9}|[\r\n]+[ \t]*)|[ \t]{2,}"
)
"""The same for ASCII text, with a match for each token instead of each run: they are counted without a look at any."""
CONTROLS = bytes(sorted({*range(0x1C), 0x7F} - set(b"\t\n\v\f\r")))
CONTROL_TOKENS = 2
BREAKS = re.compile(r"[\r\n]+[ \t]*|[ \t]{17,}")
BREAK_CHARS = 16
LONG_BREAKS = (" " * 9, "\t", "\r", "\n" * 4)
"""One of these is in every text that has a run of breaks and blanks longer than one token."""


def estimate_text(text: str) -> int:
    """Tokens of a text. Deterministic; never zero for text that is not empty."""
    if len(text) <= LONG_TEXT_CHARS:
        return _count(text)
    middle = len(text) // 2
    samples = (text[:SAMPLE_CHARS], text[middle : middle + SAMPLE_CHARS], text[-SAMPLE_CHARS:])
    return sum(_count(sample) for sample in samples) * len(text) // (SAMPLE_CHARS * len(samples))


def _count(text: str) -> int:
    return (_count_plain(text) if text.isascii() else _count_runs(text)) or (1 if text else 0)


def _count_plain(text: str) -> int:
    """ASCII text. The same as run by run, three to five times as quick."""
    controls = len(text) - len(text.encode().translate(None, CONTROLS))
    tokens = PLAIN_TOKENS.subn("", text)[1] + CONTROL_TOKENS * controls
    if any(map(text.__contains__, LONG_BREAKS)):
        tokens += sum((len(run) - 1) // BREAK_CHARS for run in BREAKS.findall(text))
    return tokens


def _count_runs(text: str) -> int:
    """Any text, run by run."""
    tokens = 0
    for piece in re.finditer(PIECES, text):
        tenths = 10 * (piece.end() - piece.start())
        tokens += -(-tenths // TENTHS_PER_TOKEN[piece.lastgroup or "other"])
    return tokens


def estimate_json(value: Any) -> int:
    """Tokens of a JSON value as it is written into a request."""
    return estimate_text(msgspec.json.encode(value).decode())


def estimate_block(block: AnyBlock | AssistantPart) -> int:
    """Tokens of one block, pictures and documents included."""
    if isinstance(block, Text | Terminal | Refusal | Reasoning):
        return estimate_text(block.text) + opaque_tokens(block)
    if isinstance(block, Image):
        return estimate_image(block.width, block.height, block.detail)
    if isinstance(block, GeneratedImage):
        return estimate_image(block.width, block.height, "auto")
    if isinstance(block, Document):
        return document_tokens(block.media_type, block.data, block.blob)
    if isinstance(block, Audio):
        return audio_tokens(source_bytes(block.data, block.blob))
    if isinstance(block, Resource):
        if block.text is not None:
            return estimate_text(block.text) + estimate_text(block.uri)
        return document_tokens(block.media_type or "", block.data, block.blob)
    if isinstance(block, ResourceLink):
        return sum(estimate_text(part or "") for part in (block.uri, block.name, block.title, block.description))
    if isinstance(block, CallPart):
        written = block.text if block.text is not None else block.malformed
        body = estimate_text(written) if written is not None else estimate_json(block.args or {})
        return CALL_OVERHEAD_TOKENS + estimate_text(block.tool) + body
    if isinstance(block, ImagePart):
        return estimate_text(block.note) if block.data is None else IMAGE_UNKNOWN_TOKENS
    if isinstance(block, ServerTool):
        return CALL_OVERHEAD_TOKENS + estimate_json(block.content)
    if isinstance(block, CallSlot):
        return 0
    return estimate_json(block.value) if isinstance(block, Data) else 0


def opaque_tokens(block: Text | Terminal | Refusal | Reasoning) -> int:
    """Encrypted reasoning travels as base64, but is billed as what it hides: about a token for six characters."""
    if isinstance(block, Reasoning) and block.opaque and not block.text:
        return len(block.opaque) // 6
    return 0


def estimate_image(width: int | None, height: int | None, detail: str) -> int:
    """Tokens of a picture, by its size if that is known."""
    if detail == "low":
        return IMAGE_LOW_TOKENS
    if not width or not height:
        return IMAGE_UNKNOWN_TOKENS
    return max(IMAGE_LOW_TOKENS, min(IMAGE_TOKENS_MAX, -(-width * height // PIXELS_PER_TOKEN)))


def document_tokens(media_type: str, data: str | None, blob: BlobRef | None) -> int:
    """Tokens of a document by its size: text as text, anything else by what a page of it weighs."""
    size = source_bytes(data, blob)
    if media_type.startswith("text/") or media_type in ("application/json", "application/xml"):
        return min(DOCUMENT_TOKENS_MAX, -(-size // 4))
    return min(DOCUMENT_TOKENS_MAX, max(1, -(-size // PDF_PAGE_BYTES)) * PDF_PAGE_TOKENS)


def audio_tokens(size: int) -> int:
    """Tokens of sound, as if it were compressed speech."""
    return min(DOCUMENT_TOKENS_MAX, max(1, -(-size // AUDIO_BYTES_PER_SECOND)) * AUDIO_TOKENS_PER_SECOND)


def source_bytes(data: str | None, blob: BlobRef | None) -> int:
    """The size of what a block holds, inline (base64) or by reference."""
    return blob.size if blob is not None else len(data or "") * 3 // 4


def estimate_item(item: HistoryItem) -> int:
    """Tokens of one item of the history."""
    parts: Iterable[AnyBlock | AssistantPart] = item.content
    total = ITEM_OVERHEAD_TOKENS + sum(estimate_block(part) for part in parts)
    if isinstance(item, ResultItem):
        total += CALL_OVERHEAD_TOKENS
    return total


def estimate_tools(tools: Iterable[ToolSchema | ServerToolSchema]) -> int:
    """Tokens of the tools that a model is told of."""
    total = 0
    for tool in tools:
        total += TOOL_OVERHEAD_TOKENS + estimate_text(tool.name)
        if isinstance(tool, ServerToolSchema):
            total += estimate_json(tool.config)
        else:
            total += estimate_text(tool.description) + estimate_json(tool.grammar or tool.parameters)
    return total


def estimate_output_schema(output: OutputSchema | None) -> int:
    """Tokens of the schema of the answer, if one is asked for."""
    return 0 if output is None else TOOL_OVERHEAD_TOKENS + estimate_json(output.json_schema)


def estimate_request(request: Request) -> int:
    """Tokens of a whole request: everything that is sent before the model writes."""
    heads = (request.instructions, *request.knowledge, request.task_state)
    total = sum(ITEM_OVERHEAD_TOKENS + estimate_text(head) for head in heads if head)
    total += sum(estimate_item(item) for item in request.items)
    total += estimate_tools(request.tools) + estimate_tools(request.server_tools)
    return total + estimate_output_schema(request.output)


def estimate_reply(item: AssistantItem) -> int:
    """Tokens that a reply cost to write."""
    return sum(estimate_block(part) for part in item.content)


PERMILLE = 1_000
SCALE_MIN, SCALE_MAX = 250, 4_000
"""A provider's count further from ours than this is a different thing being counted, not a scale."""
OBSERVATIONS_MAX = 16
"""How far one report can move the scale at least: a sixteenth of the way."""
OBSERVED_TOKENS_MIN = 64
"""Smaller requests are mostly overhead and say nothing about text."""


class TokenScale(Value, frozen=True, kw_only=True):
    """How a model's own counts relate to our estimates, in thousandths. A plain value: `observe` gives a new one.

    The first report counts fully, later ones less and less, down to a sixteenth each, so that it settles and still
    follows a change of tokenizer."""

    permille: int = PERMILLE
    observations: int = 0

    def apply(self, estimate: int) -> int:
        """An estimate in this model's own tokens, rounded up."""
        return -(-estimate * self.permille // PERMILLE)

    def observe(self, estimate: int, reported: int) -> TokenScale:
        """The scale after a provider reported `reported` tokens where we had estimated `estimate` (before scaling)."""
        if estimate < OBSERVED_TOKENS_MIN or reported <= 0:
            return self
        seen = max(SCALE_MIN, min(SCALE_MAX, reported * PERMILLE // estimate))
        count = min(self.observations + 1, OBSERVATIONS_MAX)
        moved = self.permille + (seen - self.permille) // count
        return TokenScale(permille=max(SCALE_MIN, min(SCALE_MAX, moved)), observations=count)


MODELS_SCALED_MAX = 256
"""How many models a `TokenScales` remembers; the one that was seen longest ago goes first."""


class TokenScales(Value, frozen=True, kw_only=True):
    """The scales of many models, as a value; the newest is last."""

    by_model: dict[str, TokenScale] = {}

    def scale(self, model: str) -> TokenScale:
        return self.by_model.get(model) or TokenScale()

    def observe(self, model: str, estimate: int, reported: int) -> TokenScales:
        kept = {name: scale for name, scale in self.by_model.items() if name != model}
        while len(kept) >= MODELS_SCALED_MAX:
            del kept[next(iter(kept))]
        return TokenScales(by_model={**kept, model: self.scale(model).observe(estimate, reported)})
