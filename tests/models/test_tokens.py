"""Token estimates: near to real tokenizers, total over every block, corrected by reports and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.values.blocks import (
    Audio,
    BlobRef,
    CallSlot,
    Data,
    Document,
    GeneratedImage,
    Image,
    Reasoning,
    Refusal,
    Resource,
    ResourceLink,
    ServerTool,
    Terminal,
    Text,
)
from windlass.events.values.items import (
    AssistantItem,
    CallPart,
    ImagePart,
    OutputSchema,
    ResultItem,
    ServerToolSchema,
    ToolSchema,
    UserItem,
)
from windlass.models import tokens
from windlass.models.base import Request
from windlass.models.tokens import (
    SCALE_MAX,
    SCALE_MIN,
    TokenScale,
    TokenScales,
    estimate_block,
    estimate_item,
    estimate_reply,
    estimate_request,
    estimate_text,
    estimate_tools,
)

BLOB = BlobRef(digest="d", size=500_000, media_type="application/pdf")


# The counts are those of the o200k vocabulary, taken once; estimates must stay within a third of them.
@pytest.mark.parametrize(
    ("text", "real"),
    [
        ("The quick brown fox jumps over the lazy dog, and nobody was surprised by it at all. " * 10, 191),
        ('def add(x: int, y: int) -> int:\n    """Adds two numbers."""\n    return x + y\n\n' * 10, 250),
        ('{"call_id": "call_17", "tool": "read_file", "args": {"path": "src/main.py", "limit": 200}}\n' * 10, 330),
        ("Die Verwaltung der Rechtsschutzversicherungsgesellschaften ist kompliziert. " * 10, 131),
        ("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 10, 191),
        ("今天天气很好，我们去公园散步吧。" * 10, 120),
        ("आज मौसम बहुत अच्छा है और हम पार्क में टहलने जा रहे हैं। " * 10, 161),
        ("🎉🚀😀 " * 10, 51),
        ("bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70\n" * 10, 410),
    ],
)
def test_estimate_is_near_a_real_tokenizer(text: str, real: int):
    assert real * 2 / 3 <= estimate_text(text) <= real * 4 / 3


@given(st.text(max_size=500))
def test_estimate_of_any_text_is_positive_and_bounded_by_its_bytes(text: str):
    estimate = estimate_text(text)
    assert estimate == estimate_text(text)
    assert (estimate > 0) == bool(text)
    assert estimate <= max(1, 2 * len(text.encode("utf-8", "surrogatepass")))


RUNS = st.builds(lambda char, times: char * times, st.characters(max_codepoint=127), st.integers(1, 40))
WORDS = st.sampled_from(
    ["a", "Word", "HTTPServer", " ", "  ", "\n", "\t", "\r\n", "0", "()", "\x1b", " " * 17, "\n" * 17]
)


@given(st.lists(RUNS | WORDS, max_size=30).map("".join))
def test_counting_plain_text_quickly_gives_what_counting_its_runs_gives(text: str):
    assert tokens._count_plain(text) == tokens._count_runs(text)


def test_very_long_text_is_judged_by_samples(monkeypatch: pytest.MonkeyPatch):
    text = "one more sentence of a long log. " * 2_000
    whole = estimate_text(text)
    monkeypatch.setattr(tokens, "LONG_TEXT_CHARS", 1_000)
    monkeypatch.setattr(tokens, "SAMPLE_CHARS", 3_300)
    assert abs(estimate_text(text) - whole) <= whole // 50


@pytest.mark.parametrize(
    ("block", "estimate"),
    [
        (Text(text="hello"), 1),
        (Terminal(text="$ ls"), 2),
        (Refusal(text="no"), 1),
        (Reasoning(text="so"), 1),
        (Reasoning(opaque="x" * 600), 100),
        (Reasoning(text="so", opaque="x" * 600), 1),
        (Image(media_type="image/png", data="AAAA"), 1_100),
        (Image(media_type="image/png", data="AAAA", detail="low"), 85),
        (Image(media_type="image/png", data="AAAA", width=750, height=1_000), 1_000),
        (Image(media_type="image/png", data="AAAA", width=9_000, height=9_000), 4_800),
        (Image(media_type="image/png", data="AAAA", width=1, height=1), 85),
        (GeneratedImage(blob=BLOB, width=750, height=1_000), 1_000),
        (Document(media_type="application/pdf", blob=BLOB), 20_000),
        (Document(media_type="text/plain", data="A" * 400), 75),
        (Audio(media_type="audio/mp3", blob=BLOB), 1_024),
        (Resource(uri="f", text="hello"), 2),
        (Resource(uri="f", blob=BLOB), 20_000),
        (ResourceLink(uri="a", name="b", title="c", description="d"), 4),
        (Data(value={"a": 1}), 5),
        (CallSlot(ordinal=0), 0),
        (ServerTool(name="search", provider="p", content={"a": 1}), 13),
        (CallPart(call_id="c", tool="add", args={"a": 1}), 14),
        (CallPart(call_id="c", tool="add", text="hello"), 10),
        (CallPart(call_id="c", tool="add", malformed="hello"), 10),
        (ImagePart(media_type="image/png", note="a cat"), 2),
        (ImagePart(media_type="image/png", data="AAAA"), 1_100),
    ],
)
def test_block_costs(block, estimate: int):
    assert estimate_block(block) == estimate


def test_request_is_the_sum_of_its_parts():
    tool = ToolSchema(name="add", description="Adds.", parameters={"type": "object"})
    custom = ToolSchema(name="patch", description="", grammar={"syntax": "lark"})
    server = ServerToolSchema(name="search", config={"max_uses": 1})
    user = UserItem(content=(Text(text="hello"),))
    reply = AssistantItem(content=(CallPart(call_id="c", tool="add", args={}),))
    result = ResultItem(call_id="c", tool="add", content=(Text(text="3"),))
    request = Request(
        model="m",
        instructions="be brief",
        knowledge=("sky is blue",),
        items=[user, reply, result],
        task_state="step two",
        tools=(tool, custom),
        server_tools=(server,),
        output=OutputSchema(name="o", json_schema={"type": "object"}),
    )
    heads = 3 * tokens.ITEM_OVERHEAD_TOKENS + 2 + 3 + 2
    items = estimate_item(user) + estimate_item(reply) + estimate_item(result)
    output = tokens.estimate_output_schema(request.output)
    assert estimate_request(request) == heads + items + estimate_tools((tool, custom, server)) + output
    assert estimate_item(result) == estimate_item(user) + tokens.CALL_OVERHEAD_TOKENS
    assert estimate_reply(reply) == estimate_item(reply) - tokens.ITEM_OVERHEAD_TOKENS
    assert estimate_request(Request(model="m")) == 0


def test_first_report_counts_fully_and_later_ones_less():
    scale = TokenScale().observe(1_000, 1_200)
    assert scale == TokenScale(permille=1_200, observations=1)
    assert scale.apply(1_000) == 1_200
    assert scale.observe(1_000, 1_000) == TokenScale(permille=1_100, observations=2)


def test_scale_settles_near_the_truth():
    scale = TokenScale()
    for index in range(100):
        scale = scale.observe(1_000, 1_300 + (index % 3 - 1) * 60)
    assert 1_240 <= scale.permille <= 1_360
    assert scale.observations == tokens.OBSERVATIONS_MAX


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(-5, 10**12)), max_size=30))
def test_no_report_moves_the_scale_out_of_its_bounds(reports: list[tuple[int, int]]):
    scale = TokenScale()
    for estimate, reported in reports:
        scale = scale.observe(estimate, reported)
        assert SCALE_MIN <= scale.permille <= SCALE_MAX


@pytest.mark.parametrize(("estimate", "reported"), [(10, 500), (1_000, 0), (1_000, -1)])
def test_reports_that_say_nothing_change_nothing(estimate: int, reported: int):
    assert TokenScale().observe(estimate, reported) == TokenScale()


def test_scales_of_many_models_are_bounded_and_forget_the_oldest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "MODELS_SCALED_MAX", 2)
    scales = TokenScales()
    for model in ("a", "b", "a", "c"):
        scales = scales.observe(model, 1_000, 2_000)
    assert list(scales.by_model) == ["a", "c"]
    assert scales.scale("b") == TokenScale()
    assert scales.scale("a").apply(10) == 20
