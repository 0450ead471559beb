"""The bytes of a request up to the end of its history begin the next request too: always, everywhere."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings

from tests.models.history_strategies import histories
from tests.models.wire_support import ADD, ENDPOINT_OF, FORMATS, PNG, offline_model
from windlass.events.values.blocks import Data, Image, Reasoning, Text
from windlass.events.values.items import (
    AssistantItem,
    CallPart,
    HistoryItem,
    ModelSettings,
    OutputSchema,
    ResultItem,
    ToolSchema,
    UserItem,
)
from windlass.models.base import Request
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.transport.http_model import Rendered, WireModel
from windlass.models.wires import encoded_history
from windlass.models.wires.anthropic.writer import CACHE
from windlass.models.wires.encoded_history import HISTORIES_MAX, Histories, History
from windlass.testing.model_server import Format

OTHERS = ("mistral", "openrouter", "deepseek", "minimax")


def models() -> dict[str, WireModel]:
    names = [*(ENDPOINT_OF[form] for form in FORMATS), *OTHERS]
    return {name: offline_model(ENDPOINTS[name], thinking=True) for name in names}


def request(items: list[HistoryItem], *, session: str = "s", state: str = "", **more: object) -> Request:
    return msgspec.structs.replace(
        Request(model="m", instructions="Be exact.", tools=(ADD,), session=session),
        items=items,
        task_state=state,
        **more,
    )


def kept(rendered: Rendered) -> bytes:
    """What the next request must begin with."""
    return rendered.body[: rendered.history_end]


def ends(items: list[HistoryItem]) -> list[int]:
    """Where a request can be made: behind a user item or behind the last result of a batch."""
    found = []
    for at, item in enumerate(items, start=1):
        following = items[at] if at < len(items) else None
        if not isinstance(item, AssistantItem) and not isinstance(following, ResultItem):
            found.append(at)
    return found


@settings(max_examples=200)
@given(items=histories())
def test_every_request_begins_with_the_history_of_the_one_before(items: list[HistoryItem]) -> None:
    for name, model in models().items():
        before: Rendered | None = None
        for number, end in enumerate(ends(items)):
            rendered = model.render(request(items[:end], state=f"step {number}"))
            json.loads(rendered.body)
            if before is not None:
                assert rendered.body.replace(CACHE, b"").startswith(kept(before).replace(CACHE, b"")), name
            before = rendered


@settings(max_examples=100)
@given(items=histories())
def test_what_is_kept_and_what_is_encoded_afresh_are_the_same_bytes(items: list[HistoryItem]) -> None:
    for name, model in models().items():
        grown = [model.render(request(items[:end])) for end in ends(items)][-1]
        copied = msgspec.msgpack.decode(msgspec.msgpack.encode(items), type=list[HistoryItem])
        fresh = models()[name].render(request(copied))
        assert grown.body == fresh.body, name


@pytest.mark.parametrize("form", FORMATS)
def test_an_item_is_encoded_once(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    model = offline_model(ENDPOINTS[ENDPOINT_OF[form]])
    encoded: list[str] = []
    real = encoded_history.extend

    def counted(history: History, items: list[HistoryItem], blobs: dict[str, str | None]) -> None:
        encoded.extend(item.key for item in items)
        real(history, items, blobs)

    monkeypatch.setattr("windlass.models.transport.http_model.extend", counted)
    items: list[HistoryItem] = []
    for number in range(20):
        items.append(UserItem(key=str(number), content=(Text(text="x"),)))
        model.render(request(items))
        model.render(request([msgspec.structs.replace(item) for item in items]))
    assert encoded == [str(number) for number in range(20)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_changed_history_is_encoded_afresh(form: Format) -> None:
    model = offline_model(ENDPOINTS[ENDPOINT_OF[form]])
    first: list[HistoryItem] = [
        UserItem(key="1", content=(Text(text="old"),)),
        UserItem(key="2", content=(Text(text="same"),)),
    ]
    other: list[HistoryItem] = [UserItem(key="1", content=(Text(text="new"),)), first[1]]
    model.render(request([*first]))
    assert b"old" not in model.render(request([*other])).body
    assert (
        model.render(request([*first])).body
        == offline_model(ENDPOINTS[ENDPOINT_OF[form]]).render(request([*first])).body
    )
    assert b"same" not in model.render(request(first[:1])).body


@pytest.mark.parametrize("form", FORMATS)
def test_lanes_and_sessions_do_not_mix(form: Format) -> None:
    model = offline_model(ENDPOINTS[ENDPOINT_OF[form]])
    said: dict[str, list[HistoryItem]] = {
        name: [UserItem(content=(Text(text=name),))] for name in ("alpha", "beta", "gamma")
    }
    bodies = [
        model.render(request([*said["alpha"]])).body,
        model.render(request([*said["beta"]], lane="compact")).body,
        model.render(request([*said["gamma"]], session="t")).body,
    ]
    for body, name in zip(bodies, said, strict=True):
        assert [other for other in said if other.encode() in body] == [name]


@pytest.mark.parametrize("form", FORMATS)
def test_the_task_state_is_last_and_never_kept(form: Format) -> None:
    model = offline_model(ENDPOINTS[ENDPOINT_OF[form]])
    items: list[HistoryItem] = [UserItem(content=(Text(text="hello"),))]
    first = model.render(request(items, state="state one"))
    second = model.render(request(items, state="state two"))
    assert b"state one" in first.body[first.history_end :]
    assert b"state one" not in second.body
    assert first.body[: first.history_end] == second.body[: second.history_end]


@pytest.mark.parametrize("form", FORMATS)
def test_the_order_of_dictionaries_does_not_matter(form: Format) -> None:
    def body(turn: int) -> bytes:
        def ordered(value: dict[str, object]) -> dict[str, object]:
            return dict(sorted(value.items(), reverse=bool(turn)))

        schema = ordered({"type": "object", "properties": ordered({"a": {"type": "string"}, "b": {"type": "null"}})})
        call = CallPart(call_id="c", tool="t", args=ordered({"z": 1, "a": ordered({"q": 1, "b": 2})}))
        items: list[HistoryItem] = [
            UserItem(content=(Data(value=ordered({"k": 1, "j": 2})),)),
            AssistantItem(content=(call,)),
            ResultItem(call_id="c", tool="t", content=(Data(value=ordered({"y": 1, "x": 2})),)),
        ]
        made = request(
            items,
            tools=(ToolSchema(name="t", description="d", parameters=schema),),
            settings=ModelSettings(extra=ordered({"zeta": ordered({"q": 1, "b": 2}), "alpha": 2})),
        )
        return offline_model(ENDPOINTS[ENDPOINT_OF[form]]).render(made).body

    assert body(0) == body(1)


def test_an_output_schema_keeps_its_order_because_models_write_in_it() -> None:
    properties = {"why": {"type": "string"}, "answer": {"type": "string"}}
    schema = OutputSchema(name="o", json_schema={"type": "object", "properties": properties})
    for form in FORMATS:
        body = offline_model(ENDPOINTS[ENDPOINT_OF[form]]).render(request([], output=schema)).body
        assert body.index(b'"why"') < body.index(b'"answer"')


def test_old_histories_are_dropped_and_the_newest_stays() -> None:
    histories_kept = Histories(ENDPOINT_HISTORY)
    for number in range(HISTORIES_MAX + 10):
        histories_kept.take(f"s{number}", "main", [])
        histories_kept.grown(10)
    assert len(histories_kept._kept) == HISTORIES_MAX
    histories_kept.grown(1 << 40)
    assert len(histories_kept._kept) == 1


def ENDPOINT_HISTORY() -> History:
    return offline_model(ENDPOINTS["openai"])._format.history()


SCRIPT = """
import hashlib, sys
from tests.models.wires.test_prefix import fixed_bodies
print(hashlib.sha256(b"".join(fixed_bodies())).hexdigest())
"""


def fixed_bodies() -> list[bytes]:
    """The same conversation in every format, as bytes."""
    call = CallPart(call_id="session:7/0", tool="add", args={"y": 2, "x": {"b": {"q", "r"} and 1, "a": 2}})
    items: list[HistoryItem] = [
        UserItem(content=(Text(text="hällo"), Image(media_type="image/png", data=PNG))),
        AssistantItem(content=(Reasoning(text="t", opaque="o", provider="gemini"), Text(text="a"), call)),
        ResultItem(
            call_id="session:7/0", tool="add", content=(Text(text="3"), Image(media_type="image/png", data=PNG))
        ),
        UserItem(content=(Data(value={"b": 1, "a": [1, 2]}),)),
    ]
    return [model.render(request(items, state="now")).body for model in models().values()]


def test_bytes_do_not_depend_on_the_process_or_its_hash_seed() -> None:
    here = hashlib.sha256(b"".join(fixed_bodies())).hexdigest()
    for seed in ("0", "1", "4242"):
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == here
