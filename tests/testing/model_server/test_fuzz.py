"""The model server under arbitrary input: the rules never break, and every answer can be written in every format."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import aiohttp
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.testing.model_server import (
    FORMATS,
    Answer,
    Call,
    Decline,
    ModelServer,
    Picture,
    Say,
    ServerCall,
    Think,
    why_refused,
)
from windlass.testing.model_server.rules.verdict import WIRES
from windlass.testing.model_server.wires.parsed import ParsedRequest
from windlass.testing.model_server.wires.wire import make

VALID = {
    name: json.loads((pathlib.Path(__file__).parent / "broken" / f"{name}.json").read_text("utf-8"))["valid"]
    for name in FORMATS
}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    out = copy.copy(value)
    out[path[0]] = replaced(value[path[0]], path[1:], new)
    return out


@settings(max_examples=400)
@given(data=st.data(), format=st.sampled_from(FORMATS), new=anything)
def test_no_body_breaks_the_rules(data: st.DataObject, format: Any, new: Any):
    place = data.draw(st.sampled_from([path for path in places(VALID[format]) if path]))
    body = replaced(VALID[format], place, new)
    reason = why_refused(format, body, model="gemini-3-test")
    assert reason is None or reason
    assert why_refused(format, VALID[format], model="gemini-3-test") is None


@settings(max_examples=60)
@given(format=st.sampled_from(FORMATS), body=st.dictionaries(st.text(max_size=8), anything, max_size=4))
def test_no_object_at_all_is_taken_for_a_request(format: Any, body: dict[str, Any]):
    assert why_refused(format, body)


texts = st.text(max_size=40)
parts = st.one_of(
    texts.map(lambda text: Say(text=text)),
    texts.map(lambda text: Think(text=text)),
    texts.map(lambda text: Decline(text=text)),
    st.builds(Call, name=st.just("add"), args=st.dictionaries(texts, anything, max_size=2) | texts),
    st.just(Picture(data="AAAA")),
    texts.map(lambda text: ServerCall(query=text, result=text)),
)
answers = st.builds(
    Answer,
    parts=st.lists(parts, max_size=5).map(tuple),
    finish=st.sampled_from([None, "stop", "length", "content_filter", "tool_calls", "refusal", "error"]),
    usage=st.sampled_from(["once", "never", "every_frame"]),
    chunk_chars=st.integers(1, 50),
)


@settings(max_examples=150)
@given(answer=answers, format=st.sampled_from(FORMATS))
def test_every_answer_can_be_written_in_every_format(answer: Answer, format: Any):
    wire = WIRES[format]
    request = ParsedRequest(format=format, model="m", stream=True, system="", messages=[], tools={}, body={})
    made = make(answer, request, number=1, call_ids="c{}")
    json.dumps(wire.reply(made))
    frames = list(wire.frames(made))
    assert [frame.kind for frame in frames].count("end") == 1
    assert frames[-1].kind == "end"
    for frame in frames:
        assert frame.data.endswith(b"\n\n")
        payload = [line[6:] for line in frame.data.decode().split("\n") if line.startswith("data: ")]
        assert all(line == "[DONE]" or json.loads(line) for line in payload)


async def test_a_script_that_raises_is_told_and_not_retried():
    def broken(request: ParsedRequest) -> str:
        raise RuntimeError("my own mistake")

    async with ModelServer(script=broken) as server, aiohttp.ClientSession() as session:
        url = f"{server.url('openai')}/chat/completions"
        async with session.post(url, json=VALID["openai"]) as reply:
            error = (await reply.json())["error"]
            assert (reply.status, error["code"]) == (400, "script_raised")
            assert "my own mistake" in error["message"]
        async with session.get(url) as reply:
            assert reply.status == 405
