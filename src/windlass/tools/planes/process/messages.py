"""What a runtime and a worker say to each other: JSON and bytes in frames, each of a known kind. Never code, never
objects: the side of the runtime believes nothing that it has not checked."""

from __future__ import annotations

import json
import struct
from typing import Any

import msgspec

from windlass.events.questions import QuestionBody
from windlass.events.values.blocks import BlobRef, JsonObject, ResultBlock
from windlass.events.values.failures import Failure
from windlass.events.workspace import FileChange
from windlass.tools.context import ModelAsk, Note, Progress
from windlass.tools.sandboxes.sandbox import Process

HEAD = struct.Struct(">cI")
"""Before each frame: its kind, and how many bytes it has."""
JSON = b"J"
BYTES = b"B"
FRAME_BYTES_MAX = 96 * 1024 * 1024
PIECE_BYTES = 256 * 1024
"""Bytes are sent in pieces of this size."""


class Broken(Exception):
    """What came is no message."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of every message."""


# --- to the worker ---


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where the code of a tool is found by its name."""

    module: str
    name: str
    path: str | None = None
    """The file of a program that was run by its path, and so has no module."""


class Call(Message, frozen=True, kw_only=True, tag="call"):
    """Run a tool."""

    address: Address
    tool: str
    code: str
    """The digest of its code as the runtime has it."""
    parameters: JsonObject | None = None
    args: JsonObject = {}
    about: JsonObject = {}
    """What the context says of the call."""


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """The call is given up; the end of the worker follows soon."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something that was asked for was refused."""

    kind: str
    message: str
    code: str | None = None
    hint: str | None = None
    for_model: bool = True


class Answer(Message, frozen=True, kw_only=True, tag="answer"):
    """What came of something that the worker asked for."""

    number: int
    value: Any = None
    trouble: Trouble | None = None


ToWorker = Call | Cancel | Answer


# --- to the runtime ---


class Ready(Message, frozen=True, kw_only=True, tag="ready"):
    """The worker can take a call."""


class Progressed(Message, frozen=True, kw_only=True, tag="progress"):
    """How far the tool is."""

    progress: Progress


class Noted(Message, frozen=True, kw_only=True, tag="note"):
    """A line for the audit."""

    note: Note


class Changed(Message, frozen=True, kw_only=True, tag="changed"):
    """A file that the tool changed."""

    change: FileChange


class Marked(Message, frozen=True, kw_only=True, tag="marked"):
    """Labels of whatever comes of the call."""

    labels: tuple[str, ...]


class Noticed(Message, frozen=True, kw_only=True, tag="notice"):
    """What the worker noticed about the call."""

    code: str
    message: str


class Wish(Message, frozen=True, kw_only=True):
    """Base of what is answered."""

    number: int


class AskPerson(Wish, frozen=True, kw_only=True, tag="ask"):
    question: QuestionBody


class AskModel(Wish, frozen=True, kw_only=True, tag="model"):
    ask: ModelAsk


class RunProcess(Wish, frozen=True, kw_only=True, tag="run"):
    process: Process
    live: bool = False


class ReadFile(Wish, frozen=True, kw_only=True, tag="read"):
    path: str


class WriteFile(Wish, frozen=True, kw_only=True, tag="write"):
    path: str
    data: bytes


class ListFiles(Wish, frozen=True, kw_only=True, tag="list"):
    path: str


class KeepFiles(Wish, frozen=True, kw_only=True, tag="keep"):
    files: tuple[tuple[str, bytes | None, bytes | None], ...]


class AskCapabilities(Wish, frozen=True, kw_only=True, tag="capabilities"):
    """What the sandbox holds to."""


AnyWish = AskPerson | AskModel | RunProcess | ReadFile | WriteFile | ListFiles | KeepFiles | AskCapabilities


class Drop(Message, frozen=True, kw_only=True, tag="drop"):
    """A wish is not wanted any more."""

    number: int


class Ended(Message, frozen=True, kw_only=True, tag="ended"):
    """What came of the call. The bytes of `blobs` follow, each in order and in pieces."""

    status: str = "finished"
    ok: bool = True
    failure: Failure | None = None
    error_code: str | None = None
    content: tuple[ResultBlock, ...] = ()
    display: tuple[ResultBlock, ...] | None = None
    telemetry: JsonObject | None = None
    private_error: str | None = None
    payload: JsonObject | None = None
    note: str = ""
    labels: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    whole: int | None = None
    """Which of the blobs is the whole output, if only a view of it stands in the content."""
    whole_size: int = 0
    """How large the output was, also the part of it that was not kept."""
    blobs: tuple[BlobRef, ...] = ()
    stained: bool = False
    """Whether the tool left something behind that the next call must not meet: processes, threads, another folder."""


ToRuntime = (
    Ready | Progressed | Noted | Changed | Marked | Noticed | AskPerson | AskModel | RunProcess | ReadFile | WriteFile
    | ListFiles | KeepFiles | AskCapabilities | Drop | Ended
)  # fmt: skip


def frame(message: Message) -> bytes:
    """A message as it is sent. Text that is not Unicode is sent with marks in its place."""
    try:
        data = msgspec.json.encode(message)
    except UnicodeEncodeError:
        data = json.dumps(msgspec.to_builtins(message), ensure_ascii=False).encode("utf-8", "replace")
    if len(data) > FRAME_BYTES_MAX:
        raise Broken(f"a message of {len(data)} bytes is larger than the {FRAME_BYTES_MAX} allowed")
    return HEAD.pack(JSON, len(data)) + data


def bytes_frame(data: bytes) -> bytes:
    """Bytes as they are sent."""
    return HEAD.pack(BYTES, len(data)) + data


def size_of(head: bytes) -> tuple[bytes, int]:
    """The kind of the frame that follows, and its size. Raises `Broken` for one that cannot be."""
    kind, size = HEAD.unpack(head)
    if kind not in (JSON, BYTES) or size > FRAME_BYTES_MAX:
        raise Broken("it does not begin like a message")
    return kind, size


_to_runtime: msgspec.json.Decoder[ToRuntime] = msgspec.json.Decoder(ToRuntime)
_to_worker: msgspec.json.Decoder[ToWorker] = msgspec.json.Decoder(ToWorker)


def to_runtime(data: bytes) -> ToRuntime:
    """A message of a worker. Raises `Broken` for anything else."""
    try:
        return _to_runtime.decode(data)
    except Exception as error:
        raise Broken(str(error)) from None


def to_worker(data: bytes) -> ToWorker:
    """A message of the runtime."""
    return _to_worker.decode(data)
