"""Pages: what left a history, in parts that are found, kept and shown as one. Pure: reads no log, keeps nothing.

A page is something said to the model with what followed from it. Its id is the place of its first item in the log, so
the same items make the same page in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from windlass.events.values.blocks import Data, Refusal, Terminal, Text
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ImagePart, ResultItem
from windlass.events.values.setup import ItemRef
from windlass.kernel.parts.context.context_size import units
from windlass.kernel.render import Lookup, Names, item
from windlass.models.tokens import estimate_text

PAGE_TOKENS = 1_500
"""Above this the next exchange begins a page of its own; one that is larger by itself is not split."""
PAGE_CHARS_MAX = 24_000
PART_CHARS_MAX = 8_000
"""How much of a page's text is kept, in all and for each item: the head and the tail of it."""
SHOWN_TOKENS_MIN = 200
"""With less room than this a page is not begun, unless it fits."""
RECALLED = "page"
"""What the history calls a note that came from the archive."""
RECALL = "recall"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Something that left the history. `seqs` are the records that it is made of; `labels` are those of its results."""

    page_id: str
    seqs: tuple[int, ...]
    text: str
    tokens: int = 0
    labels: tuple[str, ...] = ()


class Leaf(msgspec.Struct, frozen=True):
    """A page before it is read: its id and its items."""

    page_id: str
    refs: tuple[ItemRef, ...]


def leaves(refs: Iterable[ItemRef]) -> list[Leaf]:
    """Items that left a history, as pages. Summaries and what was recalled are none: what they tell of is a page."""
    own = [ref for ref in refs if ref.kind != "summary" and not (ref.kind == "note" and ref.part == RECALLED)]
    groups: list[list[ItemRef]] = []
    tokens = 0
    for unit in units(own):
        weight = sum(ref.tokens for ref in unit)
        if not groups or unit[0].kind == "user" or tokens + weight > PAGE_TOKENS:
            groups.append([])
            tokens = 0
        groups[-1] += unit
        tokens += weight
    return [Leaf(_page_id(group[0]), tuple(group)) for group in groups]


def _page_id(first: ItemRef) -> str:
    """Several imported items, rewritten prompts or notes may stand at one place; their part tells them apart."""
    part = "" if first.kind in ("assistant", "result") else first.part.removesuffix("+")
    return f"p{first.seq}.{part}" if part else f"p{first.seq}"


def page(leaf: Leaf, lookup: Lookup, labels: Mapping[str, Sequence[str]]) -> Page:
    """A page with its text, as far as it is kept. Results that were left out of the history are whole here. `labels`
    are those that tools put on all their results, by name."""
    names: Names = {}
    parts = [shortened(in_words(item(_whole(ref), lookup, names)), PART_CHARS_MAX) for ref in leaf.refs]
    text = shortened("\n".join(part for part in parts if part), PAGE_CHARS_MAX)
    seqs = tuple(dict.fromkeys(ref.seq for ref in leaf.refs))
    all_labels = {label for seq in seqs for label in getattr(lookup(seq), "labels", ())}
    all_labels.update(label for tool, _ in names.values() for label in labels.get(tool, ()))
    return Page(
        page_id=leaf.page_id,
        seqs=seqs,
        text=text,
        tokens=estimate_text(text),
        labels=tuple(sorted(all_labels)),
    )


def _whole(ref: ItemRef) -> ItemRef:
    return msgspec.structs.replace(ref, elided=False) if ref.elided else ref


def in_words(message: HistoryItem) -> str:
    """An item in words."""
    if isinstance(message, AssistantItem):
        return "\n".join(_of_assistant(message))
    text = _text(message.content)
    if isinstance(message, ResultItem):
        if message.tool == RECALL:
            return f"[{RECALL} showed earlier pages]"
        return f"[{message.tool}, call {message.call_id}, {'failed' if message.is_error else 'gave'}] {text}"
    return f"user: {text}" if message.origin == "person" else text


def _of_assistant(reply: AssistantItem) -> Iterator[str]:
    """What a reply said and called; how it reasoned stays in the log."""
    for part in reply.content:
        if isinstance(part, Text | Refusal) and part.text:
            yield f"assistant: {part.text}"
        elif isinstance(part, CallPart):
            given = part.text if part.text is not None else part.malformed
            yield f"[called {part.tool}, call {part.call_id}] {given if given is not None else _json(part.args or {})}"
        elif isinstance(part, ImagePart) and part.note:
            yield part.note


def _text(content: Iterable[object]) -> str:
    """What can be read of some blocks; of a picture or a document, that there was one."""
    parts = []
    for block in content:
        if isinstance(block, Text | Terminal):
            parts.append(block.text)
        elif isinstance(block, Data):
            parts.append(_json(block.value))
        else:
            parts.append(getattr(block, "text", None) or f"[{type(block).__name__.lower()}]")
    return "\n".join(part for part in parts if part)


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def shortened(text: str, most: int) -> str:
    """The head and the tail of a text that is too long, with how much is missing between them."""
    if len(text) <= most:
        return text
    head, tail = most - most // 3, most // 3
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"


def shown(pages: Sequence[Page], tokens_max: int) -> tuple[str, tuple[Page, ...]]:
    """Pages as one text of about so many tokens at the most, and those of them that are in it. The last one may be
    shortened; those without room are named."""
    room = tokens_max
    parts: list[str] = []
    there: list[Page] = []
    for candidate in pages:
        text, tokens = candidate.text, estimate_text(candidate.text)
        if there and room < min(tokens, SHOWN_TOKENS_MIN):
            break
        if tokens > room:
            text = shortened(text, max(1, len(text) * room // tokens))
        parts.append(f"[page {candidate.page_id}]\n{text}")
        there.append(candidate)
        room -= tokens
    left = [left_out.page_id for left_out in pages[len(there) :]]
    if left:
        parts.append(f"[no room for {', '.join(left)}: ask for them by id]")
    return "\n\n".join(parts), tuple(there)
