"""Content that no model may see, by patterns of a session's policy: a mark stands in its place before a result is kept.

Texts, data and whole outputs are searched, whichever tool gave them. Pictures, sounds and documents are not read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.tools.calls import ResultBody
from windlass.events.values.blocks import Data, Resource, ResourceLink, ResultBlock, Terminal, Text
from windlass.tools.linear_patterns import LinearPattern, NotLinear

from .large_output import Blob
from .outcome import Outcome
from .results import text_result

MARK = "[withheld by policy]"
PATTERNS_MAX = 64
PATTERN_CHARS_MAX = 1_000
TEXTUAL = ("text/", "application/json", "application/octet-stream")


def check_content_patterns(patterns: Sequence[str]) -> None:
    """Raises `UsageError` for what is no pattern of content, or too many of them."""
    if len(patterns) > PATTERNS_MAX:
        raise UsageError(f"{len(patterns)} patterns in exclude_patterns=, at most {PATTERNS_MAX}")
    for text in patterns:
        if not isinstance(text, str) or not 0 < len(text) <= PATTERN_CHARS_MAX:
            raise UsageError(
                f"exclude_patterns={text!r} is no pattern: write a regular expression such as 'sk-[a-z0-9]+'"
            )
        try:
            empty = LinearPattern(text).found_in("")
        except NotLinear as error:
            raise UsageError(f"exclude_patterns={text!r} cannot be searched for: {error}") from None
        if empty:
            raise UsageError(
                f"exclude_patterns={text!r} fits nothing at all, and so everything: let it need a character"
            )


@functools.lru_cache(maxsize=64)
def withheld_by(patterns: tuple[str, ...]) -> Withheld | None:
    """What takes the content of some patterns out of results; None if there are none."""
    return Withheld(patterns) if patterns else None


class Withheld:
    """The patterns of a policy, ready to be searched for."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = [LinearPattern(text) for text in patterns]

    def text(self, text: str) -> str:
        """A text with a mark for all that fits; the same object if nothing does. Too long a text is withheld whole."""
        for pattern in self._patterns:
            if len(text) > pattern.chars_max:
                return f"{MARK[:-1]}: {len(text)} characters are too many to be searched]"
            if pattern.found_in(text):
                text = pattern.replaced(text, MARK)
        return text

    def blotted(self, data: bytes) -> bytes:
        """Bytes with asterisks for all that fits, as many as before. Too many are withheld whole."""
        for pattern in self._patterns:
            data = pattern.blotted(data) if len(data) <= pattern.chars_max else b"*" * len(data)
        return data

    def outcome(self, outcome: Outcome) -> Outcome:
        """An outcome without it, whole outputs beside the preview too."""
        if outcome.body is None:
            return outcome
        body = self.body(outcome.body)
        whole = next((blob for blob in outcome.blobs if body.whole is not None and blob.ref == body.whole), None)
        if whole is None:
            return msgspec.structs.replace(outcome, body=body) if body is not outcome.body else outcome
        return self._of_whole(outcome, body, whole)

    def _of_whole(self, outcome: Outcome, body: ResultBody, whole: Blob) -> Outcome:
        """The same with an output that was too large for the conversation: its preview is made anew."""
        text = whole.read().decode("utf-8", "replace")
        clean = self.text(text) if whole.ref.media_type.startswith(TEXTUAL) else text
        if clean is text:
            return msgspec.structs.replace(outcome, body=body)
        made = text_result(clean)
        others = tuple(blob for blob in outcome.blobs if blob is not whole)
        whole.close()
        return msgspec.structs.replace(
            outcome,
            body=msgspec.structs.replace(body, content=(*made.content, *body.content[1:]), whole=made.whole),
            size=made.size,
            spooled=made.whole_size,
            blobs=(*made.blobs, *others),
        )

    def body(self, body: ResultBody) -> ResultBody:
        """A result without it; the same object if there is nothing to withhold."""
        content = self._blocks(body.content)
        display = self._blocks(body.display) if body.display is not None else None
        error = self.text(body.private_error) if body.private_error is not None else None
        if content is body.content and display is body.display and error is body.private_error:
            return body
        return msgspec.structs.replace(body, content=content, display=display, private_error=error)

    def _blocks(self, blocks: tuple[ResultBlock, ...]) -> tuple[ResultBlock, ...]:
        clean = tuple(self._block(block) for block in blocks)
        return blocks if all(new is old for new, old in zip(clean, blocks, strict=True)) else clean

    def _block(self, block: ResultBlock) -> ResultBlock:
        match block:
            case Text(text=text) | Terminal(text=text):
                clean = self.text(text)
                return block if clean is text else msgspec.structs.replace(block, text=clean)
            case Resource(text=str(text)):
                clean = self.text(text)
                return block if clean is text else msgspec.structs.replace(block, text=clean)
            case ResourceLink(uri=uri, name=name):
                links = {"uri": self.text(uri), "name": self.text(name)}
                return block if links == {"uri": uri, "name": name} else msgspec.structs.replace(block, **links)
            case Data(value=value):
                withheld_value = self._value(value)
                return block if withheld_value == value else Data(value=withheld_value)
        return block

    def _value(self, value: Any) -> Any:
        """Data without it, names and numbers too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self._value(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(inner) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            told = str(value)
            return value if self.text(told) is told else MARK
        return value
