"""Messages of A2A: what they say as blocks of a prompt, and what they answer."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.values.blocks import Audio, Document, Image, InputBlock, ResourceLink, Text
from windlass.protocol.exchanges.answers import Ask, answer_schema, ask_id, words_of
from windlass.protocol.wire_commands import WireError
from windlass.runtime.api.approvals import PermissionAsk

from .wire_ids import MESSAGE_ID_MAX

Json = dict[str, Any]
YES, NO = ("approve", "approved", "yes"), ("deny", "denied", "no")
"""Words that answer a permission or a plan if nothing else is said."""


class Said(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of a client's."""

    message_id: str
    parts: list[Json]
    context_id: str = ""
    task_id: str = ""
    role: str = "ROLE_USER"


def read_message(params: Json) -> Said:
    """The message of a request. Raises `WireError`."""
    try:
        said = msgspec.convert(params.get("message"), Said)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        raise WireError(f"$.message{path.strip('`').removeprefix('$')}", message) from None
    if not 0 < len(said.message_id) <= MESSAGE_ID_MAX or not said.message_id.isprintable():
        raise WireError("$.message.messageId", f"give an id of 1 to {MESSAGE_ID_MAX} printable characters")
    if said.role != "ROLE_USER":
        raise WireError("$.message.role", "a client says something as ROLE_USER")
    if not said.parts:
        raise WireError("$.message.parts", "say something")
    return said


def blocks_of(said: Said) -> tuple[InputBlock, ...]:
    """What a message says. Raises `WireError` for a part that cannot be given to a model."""
    return tuple(_block(part, f"$.message.parts[{at}]") for at, part in enumerate(said.parts))


def _block(part: Json, path: str) -> InputBlock:
    if isinstance(part.get("text"), str):
        return Text(text=part["text"])
    if "data" in part:
        return Text(text=msgspec.json.encode(part["data"]).decode())
    if isinstance(part.get("url"), str):
        return ResourceLink(uri=part["url"], name=str(part.get("filename") or part["url"]))
    if isinstance(part.get("raw"), str):
        media = str(part.get("mediaType") or "application/octet-stream")
        kinds: dict[str, type[Image | Audio]] = {"image": Image, "audio": Audio}
        kind = kinds.get(media.partition("/")[0])
        if kind is not None:
            return kind(media_type=media, data=part["raw"])
        return Document(media_type=media, data=part["raw"], name=str(part.get("filename") or "") or None)
    raise WireError(path, "a part has `text`, `data`, `url` or `raw`")


def answers_of(said: Said, asks: dict[str, Ask]) -> dict[str, Any]:
    """What a message answers, by what asked: each data part is one answer, and names its `request` if several are open.
    A text alone answers what alone is open. Raises `WireError` for what is no answer."""
    answers: dict[str, Any] = {}
    texts: list[str] = []
    for at, part in enumerate(said.parts):
        path = f"$.message.parts[{at}]"
        if isinstance(part.get("data"), dict):
            data = dict(part["data"])
            name = _named(str(data.pop("request", "")), asks, path)
            answers[name] = data
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            raise WireError(path, "an answer is a text or data")
    if not answers:
        name = _named("", asks, "$.message.parts")
        answers[name] = _from_words("\n".join(texts), asks[name])
    return answers


def _named(name: str, asks: dict[str, Ask], path: str) -> str:
    ask_name = name or (next(iter(asks)) if len(asks) == 1 else "")
    if ask_name not in asks:
        raise WireError(f"{path}.data.request", f"{name[:80]!r} is not open: {', '.join(asks)}; name one of them")
    return ask_name


def _from_words(words: str, ask: Ask) -> Any:
    if not isinstance(ask, PermissionAsk) and ask.kind != "plan":
        return words
    word = words.strip().lower().rstrip(".!")
    if word in YES or word in NO:
        return {"approved": word in YES}
    if not isinstance(ask, PermissionAsk):
        return {"approved": False, "feedback": words}
    raise WireError("$.message.parts[0].text", f"answer {YES[0]!r} or {NO[0]!r}, or with data: {{'approved': true}}")


def asking_parts(asks: list[Ask]) -> list[Json]:
    """What is asked: in words for a person, and as data for a program."""
    parts: list[Json] = [{"text": "\n".join(words_of(ask) for ask in asks)}]
    for ask in asks:
        data: Json = {"request": ask_id(ask), "schema": answer_schema(ask)}
        if isinstance(ask, PermissionAsk):
            detail = msgspec.to_builtins(ask.detail) if ask.detail is not None else None
            data |= {"kind": "permission", "tool": ask.tool, "digest": ask.digest, "detail": detail}
        else:
            data |= {"kind": ask.kind, "question": msgspec.to_builtins(ask.body)}
        parts.append({"data": data})
    return parts
