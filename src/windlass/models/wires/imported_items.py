"""What the importers of the four formats share: the growing list of items and the reading of media."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Audio, Document, Image, ResourceLink, Text
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem, UserItem
from windlass.models.base import complete_args

AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}


class Imported:
    """An imported history: its instructions and its items. A call keeps the provider's id; where that is missing or
    was seen before, it gets one derived from its place."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.instructions: list[str] = []
        self.items: list[HistoryItem] = []
        self._open: list[CallPart] = []
        self._ids: set[str] = set()

    def key(self) -> str:
        return f"import-{len(self.items) + 1}"

    def add_instructions(self, text: str) -> None:
        if text:
            self.instructions.append(text)

    def add_user(self, content: list[Any]) -> None:
        if content:
            self.items.append(UserItem(key=self.key(), content=tuple(content)))

    def add_assistant(self, content: list[Any]) -> None:
        if content:
            self._open += [part for part in content if isinstance(part, CallPart)]
            self.items.append(AssistantItem(key=self.key(), content=tuple(content), provider=self.provider))

    def call(self, at: int, tool: str, provider_call_id: str | None, raw: Any, **more: Any) -> CallPart:
        """A call, its arguments parsed; what does not parse is kept as text and marked."""
        fields: dict[str, Any] = dict(more)
        if "text" not in fields:
            args, error = (raw, None) if isinstance(raw, dict) else complete_args(str(raw or ""))
            fields["args"] = args if error is None else {}
            fields["malformed"] = str(raw) if error is not None else None
        call_id = provider_call_id or ""
        if not call_id or call_id in self._ids:
            call_id = f"{self.key()}-{at}"
        self._ids.add(call_id)
        return CallPart(call_id=call_id, tool=tool, provider_call_id=provider_call_id or None, **fields)

    def add_result(
        self, provider_call_id: str | None, content: list[Any], *, tool: str = "", failed: bool = False
    ) -> None:
        """The result of an open call: the one with this id, or else the first with this name, or else the first."""
        call = self._take(provider_call_id, tool)
        self.items.append(
            ResultItem(
                key=self.key(),
                call_id=call.call_id,
                tool=call.tool,
                content=tuple(content),
                is_error=failed,
                provider_call_id=call.provider_call_id,
            )
        )

    def _take(self, provider_call_id: str | None, tool: str) -> CallPart:
        for at, call in enumerate(self._open):
            if provider_call_id:
                fits = call.provider_call_id == provider_call_id
            else:
                fits = not tool or call.tool == tool
            if fits:
                return self._open.pop(at)
        raise UsageError(f"the history has a result for call {provider_call_id or tool!r}, but no such call before it")

    def check_pairs(self) -> None:
        """Raises unless every call has its result."""
        if self._open:
            names = ", ".join(repr(call.provider_call_id or call.tool) for call in self._open)
            raise UsageError(f"the history has calls without results: {names}; add their results or remove them")


def data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 of a data URL."""
    if not url.startswith("data:") or ";base64," not in url:
        return None
    media_type, _, data = url[5:].partition(";base64,")
    return media_type, data


def media(media_type: str, data: str, name: str | None = None) -> Image | Audio | Document:
    """The block for some inline bytes."""
    if media_type.startswith("image/"):
        return Image(media_type=media_type, data=data)
    if media_type.startswith("audio/"):
        return Audio(media_type=media_type, data=data)
    return Document(media_type=media_type, data=data, name=name)


def linked(url: str, name: str = "image") -> Any:
    """The block for something by address: inline where the address holds it, else a pointer."""
    inline_data = data_url(url)
    return media(*inline_data) if inline_data is not None else ResourceLink(uri=url, name=name)


def text_blocks(text: Any) -> list[Any]:
    return [Text(text=text)] if isinstance(text, str) and text else []


def as_json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
