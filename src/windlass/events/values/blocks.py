"""Content: the blocks that prompts, replies and results are made of.

Values only. What a person sees and what a model sees are both built from these.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

JsonObject = dict[str, Any]

INT_MAX = 2**63 - 1
"""The largest whole number that every form of a log can hold."""
Nat = Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)]
Positive = Annotated[int, msgspec.Meta(gt=0, le=INT_MAX)]
"""A whole number that is not negative."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=False, gc=False):
    """Base of the plain values inside events."""


class BlobRef(Value, frozen=True, kw_only=True):
    """Bytes kept outside the log, named by their digest."""

    digest: str
    size: Nat
    media_type: str = "application/octet-stream"


class Icon(Value, frozen=True, kw_only=True):
    """An icon of a linked resource."""

    src: str
    media_type: str | None = None
    sizes: tuple[str, ...] = ()
    theme: Literal["light", "dark"] | None = None


class Block(Value, frozen=True, kw_only=True, tag_field="type"):
    """Base of every content block."""


class Text(Block, frozen=True, kw_only=True, tag="text"):
    """Plain text."""

    text: str


class Terminal(Block, frozen=True, kw_only=True, tag="terminal"):
    """Output of a command, with how it ended and where it ran."""

    text: str
    exit_code: int | None = None
    cwd: str | None = None


class Image(Block, frozen=True, kw_only=True, tag="image"):
    """A picture: inline as base64 in `data`, or by reference. Exactly one of the two is set."""

    media_type: str
    data: str | None = None
    blob: BlobRef | None = None
    width: Nat | None = None
    height: Nat | None = None
    detail: Literal["auto", "low", "high"] = "auto"

    def __post_init__(self) -> None:
        one_source(self.data, self.blob, "image")


class Audio(Block, frozen=True, kw_only=True, tag="audio"):
    """Sound: inline as base64 or by reference."""

    media_type: str
    data: str | None = None
    blob: BlobRef | None = None

    def __post_init__(self) -> None:
        one_source(self.data, self.blob, "audio")


class Document(Block, frozen=True, kw_only=True, tag="document"):
    """A document such as a PDF: inline as base64 or by reference."""

    media_type: str
    name: str | None = None
    data: str | None = None
    blob: BlobRef | None = None

    def __post_init__(self) -> None:
        one_source(self.data, self.blob, "document")


class ResourceLink(Block, frozen=True, kw_only=True, tag="resource_link"):
    """A pointer to something that can be fetched; its content is not here."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    media_type: str | None = None
    size: Nat | None = None
    icons: tuple[Icon, ...] = ()


class Resource(Block, frozen=True, kw_only=True, tag="resource"):
    """An embedded resource, as text or as base64 in `data` or by reference."""

    uri: str
    media_type: str | None = None
    text: str | None = None
    data: str | None = None
    blob: BlobRef | None = None

    def __post_init__(self) -> None:
        one_source(self.text, self.data, "resource", self.blob)


class Data(Block, frozen=True, kw_only=True, tag="data"):
    """Structured data: any JSON value."""

    value: Any


class Reasoning(Block, frozen=True, kw_only=True, tag="reasoning"):
    """A model's reasoning. `opaque` (a signature or encrypted content) goes back to the same provider unchanged."""

    text: str = ""
    opaque: str | None = None
    provider: str | None = None
    reasoning_id: str | None = None
    redacted: bool = False


class Refusal(Block, frozen=True, kw_only=True, tag="refusal"):
    """The model declined, in its own words."""

    text: str


class CallSlot(Block, frozen=True, kw_only=True, tag="call"):
    """The place in a reply where its call number `ordinal` stands; the call itself is in the reply's `calls`."""

    ordinal: Nat


class ServerTool(Block, frozen=True, kw_only=True, tag="server_tool"):
    """A tool that the provider ran on its side, request or result, kept as the provider sent it."""

    name: str
    provider: str
    content: Any = None
    server_call_id: str | None = None


class GeneratedImage(Block, frozen=True, kw_only=True, tag="generated_image"):
    """An image that the model made. The bytes are a blob."""

    blob: BlobRef
    width: Nat | None = None
    height: Nat | None = None
    revised_prompt: str | None = None
    image_id: str | None = None
    provider_data: JsonObject | None = None


InputBlock = Text | Image | Audio | Document | ResourceLink | Resource | Data
"""What a prompt may hold."""

ResultBlock = Text | Terminal | Image | Audio | Document | ResourceLink | Resource | Data
"""What a tool result may hold."""

ReplyBlock = Text | Reasoning | Refusal | CallSlot | ServerTool | GeneratedImage
"""What a model reply may hold, in the model's order."""

AnyBlock = (
    Text
    | Terminal
    | Image
    | Audio
    | Document
    | ResourceLink
    | Resource
    | Data
    | Reasoning
    | Refusal
    | CallSlot
    | ServerTool
    | GeneratedImage
)


class LineRange(Value, frozen=True, kw_only=True):
    """Lines `start` to `end`, counted from 1, both included."""

    start: Nat
    end: Nat


class Position(Value, frozen=True, kw_only=True):
    """A place in a text, counted from 0."""

    line: Nat
    character: Nat


class Attachment(Value, frozen=True, kw_only=True, tag_field="type"):
    """Base of what a prompt may point to beside its text."""

    labels: tuple[str, ...] = ()
    """What it is marked with, such as `private` or `untrusted:web`; the session carries that on."""


class FileAttachment(Attachment, frozen=True, kw_only=True, tag="file"):
    """A file, or some lines of it. `content` is what was read of it when the prompt was sent, by whoever sent it: the
    file is never read again."""

    path: str
    name: str | None = None
    lines: LineRange | None = None
    content: Text | Image | Audio | Document | None = None
    left_out: str = ""


class DirectoryAttachment(Attachment, frozen=True, kw_only=True, tag="directory"):
    """A directory. `listing` is what was in it when the prompt was sent: names, not contents."""

    path: str
    name: str | None = None
    listing: str | None = None
    left_out: str = ""


class SelectionAttachment(Attachment, frozen=True, kw_only=True, tag="selection"):
    """Text selected in an editor, with where it was."""

    path: str
    text: str
    start: Position
    end: Position
    name: str | None = None
    left_out: str = ""


class ReferenceAttachment(Attachment, frozen=True, kw_only=True, tag="reference"):
    """An issue, pull request or discussion somewhere else."""

    kind: Literal["issue", "pull_request", "discussion"]
    url: str
    number: Nat | None = None
    title: str | None = None
    state: str | None = None


class ImageAttachment(Attachment, frozen=True, kw_only=True, tag="image"):
    """A picture given with a prompt."""

    image: Image
    name: str | None = None


class DocumentAttachment(Attachment, frozen=True, kw_only=True, tag="document"):
    """A document given with a prompt."""

    document: Document
    name: str | None = None


AnyAttachment = (
    FileAttachment
    | DirectoryAttachment
    | SelectionAttachment
    | ReferenceAttachment
    | ImageAttachment
    | DocumentAttachment
)


def one_source(first: object, second: object, what: str, third: object = None) -> None:
    """Raises unless exactly one of the sources of a block is set."""
    if sum(source is not None for source in (first, second, third)) != 1:
        raise ValueError(f"{what} block needs exactly one source (inline or blob)")


def plain_text(blocks: tuple[AnyBlock, ...] | tuple[ResultBlock, ...] | tuple[ReplyBlock, ...]) -> str:
    """The text of some blocks, joined; pictures and the like are left out."""
    parts = [block.text for block in blocks if isinstance(block, Text | Terminal | Refusal)]
    return "\n".join(part for part in parts if part)


def refs_in(value: Any) -> list[BlobRef]:
    """The blobs that a value refers to, however deep within it."""
    refs: list[BlobRef] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, BlobRef):
            refs.append(part)
        elif isinstance(part, msgspec.Struct):
            waiting += [getattr(part, name) for name in part.__struct_fields__]
        elif isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
    return refs
