"""Names, choices and their reasons, prices, and models opened by name against a loopback provider."""

from __future__ import annotations

import asyncio
import datetime
import http.server
import pathlib
import threading
from collections.abc import Iterator

import msgspec
import pytest

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import ToolSchema, UserItem
from windlass.events.values.usage import Price, Usage
from windlass.models.base import Model, ModelInfo, Reply, Request
from windlass.models.catalogue import data as catalogue_data
from windlass.models.catalogue.credentials import from_callable, from_value
from windlass.models.catalogue.endpoints import ENDPOINTS, Endpoint, configured
from windlass.models.catalogue.names import FREE, Catalogue, default_catalogue, open_model, probe_ollama, resolve, usd
from windlass.models.embedded.constrained import ConstrainedModel
from windlass.models.transport.timeouts import Timeouts
from windlass.testing.model_server import ModelServer

KNOWN = default_catalogue()
ASK = Request(model="m", items=[UserItem(content=(Text(text="hello"),))])


def nobody(address: str) -> None:
    return None


def chosen(name: str | None = None, **environ: str) -> tuple[str, str]:
    info = resolve(name, environ, probe=nobody)
    return info.name, info.why


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("openai/gpt-5-mini", "openai/gpt-5-mini"),
        ("gpt-5-mini", "openai/gpt-5-mini"),
        ("GPT-5-Mini", "openai/gpt-5-mini"),
        ("sonnet", "anthropic/claude-sonnet-5-5"),
        ("claude-opus-4-5", "anthropic/claude-opus-4-5"),
        ("kimi", "moonshot/kimi-k3"),
        ("MiniMax-M3", "minimax/MiniMax-M3"),
        ("gpt-oss-20b", "groq/openai/gpt-oss-20b"),
        ("google/gemini-2.5-pro", "gemini/gemini-2.5-pro"),
        ("kimi/kimi-k3", "moonshot/kimi-k3"),
        ("openrouter/anthropic/claude-sonnet-5", "openrouter/anthropic/claude-sonnet-5"),
        ("openai/a-model-of-tomorrow", "openai/a-model-of-tomorrow"),
        ("embedded", "embedded/smollm2-135m"),
        (" Embedded/SmolLM2-135M ", "embedded/smollm2-135m"),
    ],
)
def test_name_means(name: str, full: str):
    assert KNOWN.full_name(name) == full


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sonet", r"no model 'sonet' \(did you mean 'sonnet'\?\): run 'windlass models' to list them"),
        ("nosuchmodel", r"no model 'nosuchmodel': run 'windlass models' to list them"),
        ("gpt-5-minni", r"no model 'gpt-5-minni' \(did you mean 'gpt-5-mini'"),
        ("zzzzzzzz", r"no model 'zzzzzzzz': run 'windlass models'"),
        ("opanai/gpt-5", r"no provider 'opanai' \(did you mean 'openai'"),
        ("openai/", r"'openai/' names no model: write openai/<model>"),
        ("gpt-oss-120b", r"several providers: write cerebras/gpt-oss-120b or groq/openai/gpt-oss-120b or together/"),
        ("", r"no model ''"),
    ],
)
def test_name_that_means_nothing_says_what_to_write(name: str, message: str):
    with pytest.raises(UsageError, match=message):
        resolve(name, {})
    if name:
        with pytest.raises(UsageError, match=f"WINDLASS_MODEL: .*{message}"):
            resolve(None, {"WINDLASS_MODEL": name})


# --- choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "environ", "full", "why"),
    [
        ("openai/gpt-5", {"ANTHROPIC_API_KEY": "k"}, "openai/gpt-5", "named explicitly"),
        (None, {"WINDLASS_MODEL": "haiku"}, "anthropic/claude-haiku-5-5", "WINDLASS_MODEL names it"),
        (None, {"OPENAI_API_KEY": "k"}, "openai/gpt-5-mini", "OPENAI_API_KEY is set"),
        (
            None,
            {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
            "anthropic/claude-sonnet-5-5",
            "ANTHROPIC_API_KEY is set",
        ),
        (None, {"OPENAI_API_KEY": " ", "GOOGLE_API_KEY": "k"}, "gemini/gemini-3.8-flash", "GOOGLE_API_KEY is set"),
        (None, {"OPENROUTER_API_KEY": "k"}, "openrouter/openrouter/auto", "OPENROUTER_API_KEY is set"),
        (None, {"XAI_API_KEY": "k"}, "xai/grok-4.7", "XAI_API_KEY is set"),
        (None, {}, "embedded/smollm2-135m", "no key is in the environment and no local Ollama answers"),
    ],
)
def test_choice_and_its_reason(name: str | None, environ: dict[str, str], full: str, why: str):
    assert chosen(name, **environ) == (full, why)


def test_local_ollama_comes_before_the_embedded_model():
    asked: list[str] = []

    def probe(address: str) -> tuple[str, ...]:
        asked.append(address)
        return ("qwen3:8b", "llama3")

    info = resolve(None, {"OLLAMA_HOST": "0.0.0.0:1234"}, probe=probe)
    assert asked == ["http://127.0.0.1:1234"]
    assert (info.name, info.why) == ("ollama/qwen3:8b", "an Ollama answers at http://127.0.0.1:1234")
    assert (info.price, info.window_tokens) == (FREE, 4_096)
    assert resolve("ollama", {}, probe=probe).name == "ollama/qwen3:8b"
    assert resolve("ollama/x", {"OLLAMA_CONTEXT_LENGTH": "32768"}, probe=nobody).window_tokens == 32_768
    assert resolve("ollama/x", {"OLLAMA_CONTEXT_LENGTH": "much"}, probe=nobody).window_tokens == 4_096


def test_ollama_is_asked_only_when_nothing_else_is_there():
    def probe(address: str) -> tuple[str, ...]:
        raise AssertionError(address)

    assert resolve("sonnet", {}, probe=probe).name == "anthropic/claude-sonnet-5-5"
    assert resolve(None, {"GROQ_API_KEY": "k"}, probe=probe).provider == "groq"


def test_ollama_without_models_is_none():
    assert resolve(None, {}, probe=lambda address: ()).provider == "embedded"
    with pytest.raises(UsageError, match=r"no Ollama with a model answers at http://127\.0\.0\.1:11434: start it"):
        resolve("ollama", {}, probe=nobody)


@pytest.fixture
def ollama() -> Iterator[tuple[str, dict[str, tuple[int, bytes]]]]:
    answers: dict[str, tuple[int, bytes]] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.get(self.path, (404, b""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    server.server_close()
    thread.join()


def test_probe_reads_a_real_answer(ollama: tuple[str, dict[str, tuple[int, bytes]]]):
    address, answers = ollama
    assert probe_ollama(address) is None
    answers["/api/tags"] = (200, b'{"models": [{"name": "a:latest", "size": 1}, {"name": "b"}]}')
    assert probe_ollama(address) == ("a:latest", "b")
    for status, body in [(500, b"{}"), (200, b"<html>"), (200, b'{"models": 3}')]:
        answers["/api/tags"] = (status, body)
        assert probe_ollama(address) is None
    answers["/api/tags"] = (200, b"{}")
    assert probe_ollama(address) == ()


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://nowhere.invalid", "https://127.0.0.1:1"])
def test_probe_of_nobody_is_none(address: str):
    assert probe_ollama(address) is None


# --- facts -------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_sound():
    for info in KNOWN.models.values():
        assert info.name == f"{info.provider}/{info.model}"
        assert info.provider in ENDPOINTS or info.provider == "embedded"
        assert info.window_tokens > 0
        if info.price is not None and info.price != FREE:
            assert info.price.as_of == catalogue_data.PRICES_AS_OF
            assert 0 < info.price.input <= info.price.output
            assert info.price.cache_read is None or 0 < info.price.cache_read < info.price.input
    assert datetime.date.fromisoformat(catalogue_data.PRICES_AS_OF)
    for row in (row for rows in catalogue_data.MODELS.values() for row in rows):
        assert len(set(row[4])) == len(row[4])
        assert set(row[4]) <= set("tidor")


def test_every_alias_and_default_is_in_the_table():
    assert set(KNOWN.aliases.values()) <= set(KNOWN.models)
    assert {f"{provider}/{model}" for provider, model in catalogue_data.DEFAULTS.items()} <= set(KNOWN.models)
    assert not any("/" in alias or alias != alias.lower() for alias in KNOWN.aliases)


def test_price_is_exact_to_the_billionth():
    price = usd(0.25, 2, 0.025, as_of="2026-01-01")
    assert price == Price(input=250_000, output=2_000_000, cache_read=25_000, as_of="2026-01-01")
    usage = Usage(input_tokens=1_000, output_tokens=10, cache_read_tokens=400)
    assert price.cost_nanos(usage) == 600 * 250 + 400 * 25 + 10 * 2_000


def test_unknown_model_is_passed_on_with_its_price_unknown():
    info = resolve("openai/a-model-of-tomorrow", {})
    assert info == ModelInfo(
        name="openai/a-model-of-tomorrow", provider="openai", model="a-model-of-tomorrow", why="named explicitly"
    )
    assert resolve("vllm/mine", {}).price == FREE
    assert resolve("deepseek/deepseek-r1-x", {}).tools is False
    assert resolve("minimax/x", {}).native_output is False


def test_other_format_of_a_provider_knows_its_models():
    info = resolve("openai-responses/gpt-5", {})
    assert (info.provider, info.price) == ("openai-responses", KNOWN.models["openai/gpt-5"].price)


def test_catalogue_can_be_extended_and_the_default_stays():
    mine = Endpoint(name="mine", wire="openai_chat", base_url="http://127.0.0.1:9/v1", needs_key=False)
    price = usd(1, 2)
    known = (
        KNOWN.with_endpoint(mine)
        .with_price("mine/big", price)
        .with_alias("big", "mine/big")
        .with_price("sonnet", price)
        .with_model(ModelInfo(name="mine/small", provider="mine", model="small", window_tokens=8_000))
    )
    assert resolve("big", {}, catalogue=known).price == price
    assert resolve("small", {}, catalogue=known).window_tokens == 8_000
    assert resolve("sonnet", {}, catalogue=known).price == price
    assert resolve("sonnet", {}).price != price
    assert isinstance(known, Catalogue)
    with pytest.raises(UsageError, match="no slash"):
        KNOWN.with_alias("a/b", "sonnet")


# --- opening -----------------------------------------------------------------------------------------------------


async def end_of(model: Model, request: Request = ASK) -> Reply | Failure:
    try:
        end = [piece async for piece in model.stream(request)][-1]
    finally:
        await model.close()
    assert isinstance(end, Reply | Failure)
    return end


BASES = [
    ("openai/gpt-5-mini", "OPENAI_API_KEY", "OPENAI_BASE_URL", "openai", "authorization", "Bearer sk-1"),
    ("openai-responses/gpt-5", "OPENAI_API_KEY", "OPENAI_BASE_URL", "responses", "authorization", "Bearer sk-1"),
    ("anthropic/claude-opus-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "anthropic", "x-api-key", "sk-1"),
    ("gemini/gemini-2.5-flash", "GEMINI_API_KEY", "GEMINI_BASE_URL", "gemini", "x-goog-api-key", "sk-1"),
    ("openrouter/some/model", "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "openai", "authorization", "Bearer sk-1"),
]


@pytest.mark.parametrize(("name", "key", "base", "wire", "header", "value"), BASES)
async def test_name_and_environment_are_enough(name: str, key: str, base: str, wire, header: str, value: str):
    async with ModelServer(script=["hello back"], key="sk-1") as server:
        model = open_model(name, environ={key: "sk-1", base: server.url(wire)})
        end = await end_of(model)
        assert isinstance(end, Reply), end
        assert end.blocks == (Text(text="hello back"),)
        assert server.requests[0].headers[header] == value
        assert model.info.name == name


async def test_missing_key_is_a_failure_that_names_the_variable():
    end = await end_of(open_model("openai/gpt-5-mini", environ={"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}))
    assert isinstance(end, Failure)
    assert (end.kind, end.failure_class, end.model) == ("no_credentials", "auth", "gpt-5-mini")
    assert "set OPENAI_API_KEY" in end.message


async def test_credential_may_name_its_own_header():
    async with ModelServer(script=["ok"]) as server:
        environ = {"OPENAI_BASE_URL": server.url("openai")}
        endpoint = configured(ENDPOINTS["openai"], environ)
        credential = from_value(endpoint, "sk-2", header="X-Gateway-Key", scheme="Token")
        assert isinstance(await end_of(open_model("gpt-5", environ=environ, credential=credential)), Reply)
        assert server.requests[0].headers["x-gateway-key"] == "Token sk-2"


async def test_credential_of_another_endpoint_is_refused():
    credential = from_value(ENDPOINTS["anthropic"], "sk-3")
    with pytest.raises(UsageError, match=r"belongs to 'anthropic' at https://api\.anthropic\.com:443"):
        open_model("openai/gpt-5", credential=credential, environ={})


async def test_plain_key_may_be_given():
    async with ModelServer(script=["ok"], key="sk-4") as server:
        environ = {"OPENAI_BASE_URL": server.url("openai")}
        for credential in ("sk-4", lambda: "sk-4"):
            server.say("ok")
            assert isinstance(await end_of(open_model("gpt-5", environ=environ, credential=credential)), Reply)
        end = await end_of(open_model("gpt-5", environ=environ, credential="two\nlines"))
        assert isinstance(end, Failure)
        assert end.kind == "no_credentials"


async def test_credential_that_renews_itself_is_used_as_it_is():
    class Own:
        def __call__(self) -> str:
            return "sk-5"

        def refused(self, value: str) -> bool:
            return False

    async with ModelServer(script=["ok"], key="sk-5") as server:
        environ = {"OPENAI_BASE_URL": server.url("openai")}
        assert isinstance(await end_of(open_model("gpt-5", environ=environ, credential=Own())), Reply)


def test_model_of_an_unknown_endpoint_is_refused():
    with pytest.raises(UsageError, match="no endpoint 'mine' for 'mine/x'"):
        open_model(ModelInfo(name="mine/x", provider="mine", model="x"), environ={})


async def test_refused_key_is_renewed_once_and_the_request_goes_on():
    async with ModelServer(script=["ok"], key="new") as server:
        environ = {"OPENAI_BASE_URL": server.url("openai")}
        endpoint = configured(ENDPOINTS["openai"], environ)
        credential = from_callable(endpoint, lambda: "old", refresh=lambda old: "new")
        assert isinstance(await end_of(open_model("gpt-5", environ=environ, credential=credential)), Reply)
        assert [request.headers["authorization"] for request in server.requests] == ["Bearer old", "Bearer new"]


async def test_revoked_sign_in_asks_for_a_person():
    async with ModelServer(script=["ok"], key="new") as server:
        environ = {"OPENAI_BASE_URL": server.url("openai")}
        endpoint = configured(ENDPOINTS["openai"], environ)
        credential = from_callable(endpoint, lambda: "old-secret", refresh=lambda old: None)
        end = await end_of(open_model("gpt-5", environ=environ, credential=credential))
    assert isinstance(end, Failure)
    assert (end.kind, end.provider, end.model) == ("reauth_required", "openai", "gpt-5")
    assert "old-secret" not in repr(end)


async def test_model_without_tools_gets_them_by_constraint():
    tool = ToolSchema(name="add", description="Add.", parameters={"type": "object", "properties": {}})
    request = msgspec.structs.replace(ASK, tools=(tool,))
    async with ModelServer(script=['{"tool": "add", "arguments": {}}']) as server:
        environ = {"DEEPSEEK_API_KEY": "k", "DEEPSEEK_BASE_URL": server.url("openai", profile="deepseek")}
        model = open_model("deepseek/deepseek-reasoner", environ=environ)
        assert isinstance(model, ConstrainedModel)
        assert model.info.tools
        end = await end_of(model, request)
    assert isinstance(end, Reply), end
    assert [call.tool for call in end.calls] == ["add"]


async def test_local_endpoint_needs_no_key_but_takes_one():
    async with ModelServer(script=["a", "b"]) as server:
        address = server.url("openai")
        for environ, sent in [({}, None), ({"VLLM_API_KEY": "k"}, "Bearer k")]:
            model = open_model("vllm/mine", environ={**environ, "VLLM_BASE_URL": address})
            assert isinstance(await end_of(model), Reply)
            assert server.requests[-1].headers.get("authorization") == sent


async def test_opened_from_what_was_resolved_with_own_timeouts():
    async with ModelServer(script=["ok"]) as server:
        environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.url("openai")}
        model = open_model(resolve(None, environ), environ=environ, timeouts=Timeouts(total=45))
        assert model.info.why == "OPENAI_API_KEY is set"
        assert isinstance(await end_of(model), Reply)


async def test_leaving_an_opened_model_closes_its_request():
    async with ModelServer(script=["word " * 2_000]) as server:
        model = open_model("gpt-5", environ={"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.url("openai")})
        stream = model.stream(ASK)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        await model.close()
        async with asyncio.timeout(50):
            while server.in_flight:
                await asyncio.sleep(0.01)


def test_who_named_no_model_and_has_none_is_told_both_ways_out(tmp_path: pathlib.Path):
    environ = {"WINDLASS_CACHE": str(tmp_path), "HOME": str(tmp_path)}
    with pytest.raises(UsageError, match=r"models pull embedded.*, or set a key such as ANTHROPIC_API_KEY$"):
        open_model(None, environ=environ, probe=nobody)
    with pytest.raises(UsageError, match="models pull embedded") as named:
        open_model("embedded", environ=environ, probe=nobody)
    assert "ANTHROPIC_API_KEY" not in str(named.value)
