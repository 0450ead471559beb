"""What the model server remembers: requests as they came, connections, lanes; the stable prefix; the command."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.virtual_time import in_virtual_time
from windlass.testing.effect_ledger import Ledger
from windlass.testing.model_server import FORMATS, ModelServer, Recorded, by_turn, call, prefix_violations, say
from windlass.testing.model_server.answers import answer_of, seal, sealed
from windlass.testing.model_server.prefixes import history_end_of
from windlass.testing.model_server.wires.openai_chat import OpenAIWire

HELLO = {"role": "user", "content": "hello"}
HI = {"role": "assistant", "content": "hi"}


async def complete(session: aiohttp.ClientSession, server: ModelServer, messages: Any, **headers: str) -> Any:
    body = {"model": "m", "messages": messages}
    async with session.post(f"{server.url('openai')}/chat/completions", json=body, headers=headers) as reply:
        return await reply.json()


async def test_requests_are_kept_as_they_came():
    async with ModelServer() as server, aiohttp.ClientSession() as session:
        raw = b'{ "model":"m",\n "messages":[{"role":"user","content":"h\xc3\xa9"}] }'
        async with session.post(f"{server.url('openai')}/chat/completions", data=raw, headers={"X-A": "b"}) as reply:
            sent = await reply.read()
        (seen,) = server.requests
        assert (seen.raw, seen.headers["x-a"], seen.status, seen.format) == (raw, "b", 200, "openai")
        assert (bytes(seen.sent), seen.finished, seen.client_left) == (sent, True, False)
        assert seen.body["messages"][0]["content"] == "hé"


@in_virtual_time
async def test_connections_and_requests_in_flight_are_counted():
    async with ModelServer(script=lambda _: say("x")) as server, aiohttp.ClientSession() as session:
        for _ in range(3):
            await complete(session, server, [HELLO])
        assert (server.connections, server.in_flight_max) == (1, 1)
        server.inject("headers_late", times=5, delay_ms=50)
        await asyncio.gather(*(complete(session, server, [HELLO]) for _ in range(5)))
        assert (server.connections, server.in_flight_max, server.in_flight) == (5, 5, 0)
        assert max(each.in_flight for each in server.requests) == 5


async def test_many_conversations_share_a_script_by_turn():
    script = by_turn([call("add", {}), "done"])
    async with ModelServer(script=script, validate=False) as server, aiohttp.ClientSession() as session:
        first = await complete(session, server, [HELLO])
        second = await complete(session, server, [HELLO])
        assert [each["choices"][0]["finish_reason"] for each in (first, second)] == ["tool_calls", "tool_calls"]
        assert (await complete(session, server, [HELLO, HI, HELLO]))["choices"][0]["message"]["content"] == "done"


async def test_only_so_many_requests_are_kept():
    async with ModelServer(keep=2) as server, aiohttp.ClientSession() as session:
        for _ in range(5):
            await complete(session, server, [HELLO])
        assert [each.number for each in server.requests] == [4, 5]


# ---- the stable prefix


async def test_a_growing_history_keeps_its_prefix_and_a_changed_one_does_not():
    async with ModelServer() as server, aiohttp.ClientSession() as session:
        await complete(session, server, [HELLO])
        await complete(session, server, [HELLO, HI, HELLO])
        assert server.prefix_violations() == []
        await complete(session, server, [{**HELLO, "content": "hallo"}, HI, HELLO, HI, HELLO])
        (found,) = server.prefix_violations()
        assert (found.earlier, found.later) == (2, 3)
        assert "hello" in found.before
        assert "hallo" in found.after


async def test_lanes_are_judged_apart():
    async with ModelServer() as server, aiohttp.ClientSession() as session:
        for lane in ("a", "b", "a", "b"):
            content = {"role": "user", "content": lane}
            await complete(session, server, [content, HI, content], **{"x-windlass-lane": lane})
        assert server.prefix_violations() == []


async def test_a_passing_last_message_can_be_left_out():
    async with ModelServer() as server, aiohttp.ClientSession() as session:
        await complete(session, server, [HELLO, {"role": "user", "content": "state 1"}])
        await complete(session, server, [HELLO, HI, HELLO, {"role": "user", "content": "state 2"}])
        assert len(server.prefix_violations()) == 1
        assert server.prefix_violations(kept=-1) == []


def recorded(number: int, raw: bytes) -> Recorded:
    blank: Any = {"method": "POST", "path": "/", "query": {}, "headers": {}, "connection": 1, "in_flight": 1}
    parsed = OpenAIWire().parse(json.loads(raw), model="m", stream=False)
    return Recorded(number=number, format="openai", raw=raw, parsed=parsed, **blank)


def test_a_field_before_the_history_that_changes_is_a_violation():
    one = recorded(1, b'{"model":"m","temperature":0,"messages":[{"role":"user","content":"x"}]}')
    two = recorded(2, b'{"model":"m","temperature":1,"messages":[{"role":"user","content":"x"}]}')
    (found,) = prefix_violations([one, two])
    assert found.at_byte == one.raw.index(b"0")


def test_moving_cache_markers_are_no_violation():
    text = '{"role":"user","content":[{"type":"text","text":"x"%s}]}'
    mark = ',"cache_control":{"type":"ephemeral"}'
    one = recorded(1, ('{"model":"m","messages":[' + text % mark + "]}").encode())
    two = recorded(2, ('{"model":"m","messages":[' + text % "" + "," + text % mark + "]}").encode())
    assert prefix_violations([one, two]) == []
    three = recorded(3, two.raw.replace(b'"x"', b'"y"'))
    assert len(prefix_violations([one, two, three])) == 1


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    head=st.dictionaries(st.text(max_size=8), values, max_size=3), items=st.lists(st.dictionaries(st.text(), values))
)
def test_the_end_of_the_history_is_found_in_any_body(head: dict[str, Any], items: list[Any]):
    head.pop("messages", None)
    raw = json.dumps({**head, "messages": items, "tail": [{"messages": []}]}).encode()
    end = history_end_of(raw, "messages")
    assert raw[:end].endswith(json.dumps(items).encode()[:-1])
    for kept in range(1, len(items)):
        assert raw[: history_end_of(raw, "messages", kept)].endswith(json.dumps(items[:kept]).encode()[:-1])


# ---- small parts


@given(text=st.text(), kind=st.sampled_from(["thinking", "redacted", "reasoning", "thought"]))
def test_a_seal_gives_back_its_text_and_no_other_kind_takes_it(text: str, kind: Any):
    assert sealed(seal(text, kind), kind) == text
    assert sealed(seal(text, kind), "thought" if kind != "thought" else "thinking") is None


def test_a_script_may_be_written_in_json():
    turn = {"parts": [{"type": "text", "text": "hi"}, {"type": "call", "name": "add", "args": {"x": 1}}]}
    assert [type(part).__name__ for part in answer_of(turn).parts] == ["Say", "Call"]
    with pytest.raises(msgspec.ValidationError):
        answer_of({"parts": [{"type": "nonsense"}]})


KEY = {"x-api-key": "sk-test-00000000", "anthropic-version": "2023-06-01", "x-goog-api-key": "test-0000000000"}


async def test_models_are_listed_and_tokens_counted():
    async with ModelServer(known_models=("m1", "m2")) as server, aiohttp.ClientSession() as session:
        async with session.get(f"{server.url('openai')}/models") as reply:
            assert [each["id"] for each in (await reply.json())["data"]] == ["m1", "m2"]
        async with session.get(f"{server.root}/api/tags") as reply:
            assert [each["name"] for each in (await reply.json())["models"]] == ["m1", "m2"]
        async with session.get(f"{server.root}/v1beta/models") as reply:
            assert [each["name"] for each in (await reply.json())["models"]] == ["models/m1", "models/m2"]
        long = "word " * 80
        asked = {"model": "m1", "messages": [{"role": "user", "content": long}]}
        async with session.post(f"{server.root}/v1/messages/count_tokens", json=asked, headers=KEY) as reply:
            assert (reply.status, await reply.json()) == (200, {"input_tokens": len(long) // 4 + 1})
        asked = {"contents": [{"role": "user", "parts": [{"text": long}]}]}
        async with session.post(f"{server.root}/v1beta/models/m1:countTokens", json=asked, headers=KEY) as reply:
            assert (reply.status, await reply.json()) == (200, {"totalTokens": len(long) // 4 + 1})
        assert server.refusals == []


# ---- the command


@pytest.mark.parametrize("module", ["windlass.testing.server", "windlass.testing.model_server"])
async def test_the_command_prints_its_address_and_serves_until_stopped(tmp_path, module: str):
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["from a file"]))
    command = [sys.executable, "-m", module, "--port", "0", "--script", str(script)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        root = (await process.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession() as session:
            body = {"model": "m", "messages": [HELLO]}
            async with session.post(f"{root}/v1/chat/completions", json=body) as reply:
                assert (await reply.json())["choices"][0]["message"]["content"] == "from a file"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_command_calls_itself_by_the_name_it_was_started_under():
    command = [sys.executable, "-m", "windlass.testing.server", "--help"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert process.returncode == 0
    assert told.decode().startswith("usage: python -m windlass.testing.server ")


# ---- the ledger


async def test_the_ledger_does_a_keyed_effect_once():
    async with Ledger() as ledger, aiohttp.ClientSession() as session:
        for _ in range(3):
            async with session.post(f"{ledger.url}/pay", json={"c": 1}, headers={"idempotency-key": "k1"}) as reply:
                assert (await reply.json())["number"] == 1
        async with session.post(f"{ledger.url}/pay", json={"c": 2}) as reply:
            assert (await reply.json())["repeated"] is False
        assert (ledger.done, ledger.asked) == ({"k1": 1, "pay": 1}, {"k1": 3, "pay": 1})
        assert ledger.effects[0].args == {"c": 1}


async def test_the_ledger_keeps_an_effect_whose_caller_never_heard():
    async with Ledger() as ledger, aiohttp.ClientSession() as session:
        ledger.drop()
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{ledger.url}/pay", json={})
        ledger.hold()
        held = asyncio.create_task(session.post(f"{ledger.url}/pay", json={}))
        await ledger.happened(2)
        assert not held.done()
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        ledger.release()
        async with session.post(f"{ledger.url}/pay", json={}) as reply:
            assert reply.status == 200
        assert ledger.done == {"pay": 3}


async def test_stopping_the_ledger_frees_held_callers():
    ledger = await Ledger(delay_ms=60_000).start()
    async with aiohttp.ClientSession() as session:
        asked = asyncio.create_task(session.post(f"{ledger.url}/pay", json={}))
        await ledger.happened(1)
        async with asyncio.timeout(50):
            await ledger.stop()
            await asyncio.gather(asked, return_exceptions=True)
    assert ledger.done == {"pay": 1}


def test_all_formats_are_four():
    assert FORMATS == ("anthropic", "openai", "responses", "gemini")
