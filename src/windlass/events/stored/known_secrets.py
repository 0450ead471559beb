"""Values that must never be written: keys in use and what a host names. Everything that is kept passes by here.

They are known to the process, not to a log: what is hidden is gone, and a reader sees a mark instead."""

from __future__ import annotations

import base64
import html
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar
from urllib.parse import quote, quote_plus

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError

T = TypeVar("T")

HIDDEN = "[hidden]"
HIDDEN_BYTES = HIDDEN.encode()
CHARS_MIN = 4
"""Shorter values stand in too many texts by chance."""
KEY_CHARS_MIN = 12
"""Shorter keys are words that people write for servers which need none."""
KEYS_MAX = 200
"""How many keys are known at once; the oldest gives way. What a host names never does."""
CORE_CHARS_MIN = 10
"""How much of a value must be seen in base 64 of something longer; less is a match by chance."""
HEAD_BYTES = 4
"""By how many bytes the beginning of a form is looked up."""
NESTED_MAX = 3
"""How deep JSON within JSON is looked for: arguments and results are often JSON, and so are the lines of a log."""


class KnownSecrets:
    """The values to hide, in each form in which somebody might write them."""

    def __init__(self) -> None:
        self._named: dict[str, None] = {}
        self._keys: dict[str, None] = {}
        self._forms: tuple[bytes, ...] = ()
        self._heads: dict[bytes, tuple[bytes, ...]] = {}
        self._lock = threading.Lock()
        self.longest = 0

    def add(self, value: str) -> None:
        """Hides a value from now on. What has been written stays. Raises `UsageError` for one that is too short."""
        if len(value) < CHARS_MIN:
            raise UsageError(
                f"a secret of {len(value)} characters cannot be told from other text: at least {CHARS_MIN}"
            )
        with self._lock:
            if value not in self._named:
                self._named = {**self._named, value: None}
                self._learn()

    def add_key(self, value: str | None) -> None:
        """Hides a key that is in use, unless it is a mere word."""
        if not value or len(value) < KEY_CHARS_MIN or value in self._keys:
            return
        with self._lock:
            self._keys = dict.fromkeys([*self._keys, value][-KEYS_MAX:])
            self._learn()

    def _learn(self) -> None:
        # Longer forms first, so that none is cut in two by another.
        forms = {form for known in (*self._named, *self._keys) for form in _forms(known)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self.longest = len(self._forms[0])
        heads: dict[bytes, list[bytes]] = {}
        for form in self._forms:
            for size in range(1, HEAD_BYTES + 1):
                heads.setdefault(form[:size], []).append(form)
        self._heads = {head: tuple(dict.fromkeys(head_forms)) for head, head_forms in heads.items()}

    @property
    def forms(self) -> tuple[bytes, ...]:
        """All that is hidden, for another process that hides it too. Never to be written down."""
        return self._forms

    def within(self, data: bytes) -> bool:
        """Whether any of them stands in the bytes."""
        for form in self._forms:  # noqa: SIM110  # at each append: a generator, or `in`, costs more than the search
            if data.find(form) >= 0:
                return True
        return False

    def hidden(self, data: bytes) -> bytes:
        """The bytes with a mark for each; the same object if there is none."""
        for form in self._forms:
            if form in data:
                data = data.replace(form, HIDDEN_BYTES)
        return data

    def blotted(self, data: bytes) -> bytes:
        """The bytes with as many asterisks for each; the same object if there is none."""
        for form in self._forms:
            if form in data:
                data = data.replace(form, b"*" * len(form))
        return data

    def hidden_text(self, text: str) -> str:
        """The text with a mark for each; the same object if there is none."""
        if not self._forms:
            return text
        data = text.encode("utf-8", "surrogatepass")
        clean = self.hidden(data)
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def hidden_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same of bytes that come in pieces, wherever they were cut."""
        rest = b""
        for piece in pieces:
            data = self.hidden(rest + piece)
            cut = max(0, len(data) - max(0, self.longest - 1))
            yield data[:cut]
            rest = data[cut:]
        yield rest

    def hidden_value(self, value: T) -> T:
        """A struct or plain data with a mark for each; the same object if there is none."""
        if not self._forms:
            return value
        try:
            data = msgspec.json.encode(value)
        except UnicodeEncodeError:  # a lone surrogate somewhere must not let the rest pass
            from .codec import scrubbed

            value = scrubbed(value)
            data = msgspec.json.encode(value)
        clean = self.hidden(data)
        if clean is data:
            return value
        return known_types.decode(clean, type(value) if isinstance(value, msgspec.Struct) else object)  # type: ignore[return-value]

    def begun_at(self, data: bytes) -> int:
        """Where something begins that may yet become one of them; the end of the bytes if nothing does."""
        for at in range(max(0, len(data) - self.longest + 1), len(data)):
            known = self._heads.get(data[at : at + HEAD_BYTES])
            if known is not None and any(form.startswith(data[at:]) for form in known):
                return at
        return len(data)

    def within_pieces(self, pieces: Iterable[bytes]) -> bool:
        """Whether any of them stands in bytes that come in pieces."""
        rest = b""
        for piece in pieces:
            data = rest + piece
            if self.within(data):
                return True
            rest = data[max(0, len(data) - self.longest) :]
        return False


class HiddenStream:
    """Text that is shown as it comes, with a mark for each known secret, wherever it was cut: what may be the beginning
    of one is held back until it is clear."""

    __slots__ = ("_held", "_secrets")

    def __init__(self, secrets: KnownSecrets) -> None:
        self._secrets = secrets
        self._held = b""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if not self._secrets.longest:
            return text
        data = self._secrets.hidden(self._held + text.encode("utf-8", "surrogatepass"))
        cut = self._secrets.begun_at(data)
        self._held = data[cut:]
        return data[:cut].decode("utf-8", "surrogatepass")

    def end(self) -> str:
        """What was held back and was none."""
        rest, self._held = self._held, b""
        return rest.decode("utf-8", "surrogatepass")


def _forms(value: str) -> Iterator[bytes]:
    """A value as it is, as JSON escapes it (also within JSON), as an address or a page has it, and in base 64: alone
    or within something longer, such as a name with its password."""
    raw = value.encode("utf-8", "replace")
    yield raw
    for ascii_only in (True, False):
        nested = value
        for _ in range(NESTED_MAX):
            nested = json.dumps(nested, ensure_ascii=ascii_only)[1:-1]
            yield nested.encode("utf-8", "replace")
    for escape in (quote, quote_plus):
        yield escape(value, safe="", errors="replace").encode()
    yield quote(value, errors="replace").encode()
    yield html.escape(value).encode("utf-8", "replace")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).rstrip(b"=")
        yield encode(b":" + raw).rstrip(b"=")
        yield from _cores(raw, encode)


def _cores(raw: bytes, encode: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """What base 64 of anything that holds these bytes has in common: one text for each place in a group of three."""
    for before in range(3):
        whole = encode(b"\0" * before + raw)
        core = whole[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        if len(core) >= CORE_CHARS_MIN:
            yield core


SECRETS = KnownSecrets()
"""Those of this process."""
