"""Content of events: blocks of results and prompts, pictures that a model made, counts of tokens, plans of retries."""

from __future__ import annotations

from typing import Literal

import msgspec

from .closed_words import U32, U64, RetryFailureKind, Uuid, Wire


class TextBlock(Wire, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text."""

    text: str


class ImageBlock(Wire, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """A picture: inline as base64, or kept elsewhere."""

    media_type: str
    source: Literal["inline", "blob"]
    data: str | None = None
    blob_id: str | None = None

    def __post_init__(self) -> None:
        if (self.data is not None, self.blob_id is not None) != (self.source == "inline", self.source == "blob"):
            raise ValueError(f"a picture with source {self.source!r} has its bytes in the field of that source alone")


ContentBlock = TextBlock | ImageBlock


def text_of(blocks: tuple[ContentBlock, ...]) -> str:
    """Blocks as one text: pictures are named."""
    return "\n".join(one.text if isinstance(one, TextBlock) else f"[image: {one.media_type}]" for one in blocks)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of tokens. Those of a cache that nobody counted are null."""

    input_tokens: U64 = 0
    output_tokens: U64 = 0
    cache_creation_tokens: U64 | None = None
    cache_read_tokens: U64 | None = None


class SchemaWarning(Wire, frozen=True, kw_only=True):
    """What of a schema a provider does not check."""

    provider: str
    path: str
    message: str


# --- retries --------------------------------------------------------------------------------------------------------


class RetryFailure(Wire, frozen=True, kw_only=True):
    """Why a request is made again."""

    provider: str
    kind: RetryFailureKind
    retry_after_ms: U64 | None = None
    duration_ms: U64 | None = None
    message: str


class RetryPlan(Wire, frozen=True, kw_only=True):
    """How long is waited before that, and why so long. The first attempt again is number 1."""

    attempt: U32
    max_retries: U32
    computed_delay_ms: U64
    selected_delay_ms: U64
    retry_after_hint_ms: U64 | None = None
    rate_limit_floor_applied: bool
    budget_capped: bool


class RetrySchedule(Wire, frozen=True, kw_only=True):
    """Both."""

    failure: RetryFailure
    plan: RetryPlan


# --- pictures that a model made -------------------------------------------------------------------------------------


class BlobRef(Wire, frozen=True, kw_only=True):
    """Bytes that are kept elsewhere."""

    blob_id: str
    media_type: str


class RevisedPrompt(Wire, frozen=True, kw_only=True, tag_field="disposition"):
    """Base of what became of the words that a picture was asked for with."""


class NotRequested(RevisedPrompt, frozen=True, kw_only=True, tag="not_requested"):
    """Nobody asked for other words."""


class Unsupported(RevisedPrompt, frozen=True, kw_only=True, tag="unsupported_by_backend"):
    """The provider does not tell."""


class Unchanged(RevisedPrompt, frozen=True, kw_only=True, tag="unchanged"):
    """They were used as they were."""


class Revised(RevisedPrompt, frozen=True, kw_only=True, tag="revised"):
    """They were replaced by these."""

    text: str
    source: str


AnyRevisedPrompt = NotRequested | Unsupported | Unchanged | Revised


class NoImageMetadata(Wire, frozen=True, kw_only=True, tag_field="provider", tag="not_emitted"):
    """The provider said nothing of a picture."""


class OpenAiImageMetadata(Wire, frozen=True, kw_only=True, tag_field="provider", tag="open_ai"):
    """What OpenAI says of a picture is not read further."""


class GeminiImageMetadata(Wire, frozen=True, kw_only=True, tag_field="provider", tag="gemini"):
    """What Gemini says of a picture is not read further."""


ImageMetadata = NoImageMetadata | OpenAiImageMetadata | GeminiImageMetadata


class AssistantImage(Wire, frozen=True, kw_only=True):
    """A picture that a model made and that is part of the history."""

    image_id: Uuid
    blob_ref: BlobRef
    media_type: str
    width: U32
    height: U32
    revised_prompt: AnyRevisedPrompt
    meta: ImageMetadata
