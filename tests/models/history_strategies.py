"""Arbitrary valid histories, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from windlass.events.values.blocks import (
    Audio,
    Data,
    Document,
    Image,
    Reasoning,
    Refusal,
    Resource,
    ResourceLink,
    ServerTool,
    Terminal,
    Text,
)
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ImagePart, ResultItem, UserItem
from windlass.testing.model_server import seal

from .wire_support import PDF, PNG

PROVIDERS = ("anthropic", "openai", "openai-responses", "gemini", "elsewhere")
SEALS: dict[str, Any] = {"anthropic": "thinking", "openai-responses": "reasoning", "gemini": "thought"}

texts = st.text(st.characters(codec="utf-8"), max_size=40)
names = st.one_of(
    st.sampled_from(("add", "patch", "read_file", "x" * 64)),
    st.text(st.characters(codec="utf-8"), max_size=80),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)

plain_blocks: st.SearchStrategy[Any] = st.one_of(
    st.builds(Text, text=texts),
    st.builds(Data, value=values),
    st.just(Image(media_type="image/png", data=PNG)),
    st.just(Document(media_type="application/pdf", data=PDF, name="a.pdf")),
    st.just(Document(media_type="text/plain", data="aGFsbG8=")),
    st.builds(ResourceLink, uri=st.just("file:///a"), name=texts),
    st.builds(Resource, uri=st.just("file:///b"), text=texts),
)
input_blocks = st.one_of(plain_blocks, st.just(Audio(media_type="audio/wav", data="UklGRg==")))
result_blocks = st.one_of(plain_blocks, st.builds(Terminal, text=texts, exit_code=st.one_of(st.none(), st.just(1))))


@st.composite
def reasoning(draw: st.DrawFn, provider: str) -> Reasoning:
    text = draw(texts)
    kind = SEALS.get(provider)
    if kind is None:
        return Reasoning(text=text, provider=provider)
    if provider == "anthropic" and draw(st.booleans()):
        return Reasoning(opaque=seal(text, "redacted"), provider=provider, redacted=True)
    opaque = seal(text, kind) if draw(st.booleans()) else None
    return Reasoning(text=text, opaque=opaque, provider=provider, reasoning_id=f"rs_{abs(hash(text)) % 997}")


@st.composite
def exchanges(draw: st.DrawFn, number: int) -> list[HistoryItem]:
    """Something said, an answer, the results of its calls, perhaps a word in between."""
    provider = draw(st.sampled_from(PROVIDERS))
    items: list[HistoryItem] = [
        UserItem(key=f"u{number}.{at}", content=tuple(content))
        for at, content in enumerate(draw(st.lists(st.lists(input_blocks, max_size=3), min_size=1, max_size=2)))
    ]
    parts: list[Any] = [draw(reasoning(provider))] if draw(st.booleans()) else []
    parts += draw(st.lists(st.builds(Text, text=texts), max_size=2))
    if draw(st.integers(0, 9)) == 0:
        parts.append(Refusal(text=draw(texts)))
    if draw(st.integers(0, 9)) == 0:
        parts.append(ServerTool(name="search", provider="elsewhere", content={"query": draw(texts)}))
    if draw(st.integers(0, 9)) == 0:
        parts.append(ImagePart(media_type="image/png", note="(an image)"))
    calls = draw(st.lists(st.tuples(names, objects, st.booleans()), max_size=3))
    for at, (name, args, custom) in enumerate(calls):
        taken: dict[str, Any] = {"text": draw(texts)} if custom and name == "patch" else {"args": args}
        if custom and name == "add":
            taken = {"args": {}, "malformed": '{"x":'}
        parts.append(CallPart(call_id=f"{number}:call/{at}", tool=name, **taken))
    items.append(AssistantItem(key=f"a{number}", content=tuple(parts), provider=provider))
    for at, (name, _, _) in enumerate(calls):
        content = tuple(draw(st.lists(result_blocks, max_size=3)))
        failed = draw(st.booleans())
        items.append(
            ResultItem(
                key=f"r{number}.{at}", call_id=f"{number}:call/{at}", tool=name, content=content, is_error=failed
            )
        )
    return items


@st.composite
def histories(draw: st.DrawFn, ended: bool = True) -> list[HistoryItem]:
    """Exchanges, then the words that are to be answered now."""
    items = [item for number in range(draw(st.integers(0, 4))) for item in draw(exchanges(number))]
    if draw(st.booleans()) or not items or (ended and isinstance(items[-1], AssistantItem)):
        items.append(UserItem(key="last", content=(Text(text=draw(texts)),)))
    return items
