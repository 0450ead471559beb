"""The table of endpoints: where each provider listens, how it wants its key, and its quirks, all as data.

Code that talks to them lives in the wire formats; this module never opens a connection.
"""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Value
from windlass.models.base import Model, ModelInfo
from windlass.models.transport.timeouts import DEFAULT_TIMEOUTS, Timeouts

WireName = Literal["anthropic", "openai_chat", "openai_responses", "gemini"]

Credential = Callable[[], Awaitable[str] | str] | str
"""A key, or something that gives one. It is asked anew for every request and may be awaited. If it has a method
`refused(value) -> bool` (plain or awaitable), that is told of a key that got a 401; an answer of True means that
the next asking gives another key, and the request is sent once more."""

ThinkingStyle = Literal["none", "effort", "enable_thinking", "thinking_type", "reasoning", "chat_template"]
"""How an OpenAI-compatible endpoint is told to think: `reasoning_effort`, `enable_thinking` with a budget,
`thinking: {type}`, `reasoning: {effort}`, `chat_template_kwargs`, or not at all."""


class Quirks(Value, frozen=True, kw_only=True):
    """Where an endpoint departs from the format it speaks. The defaults are the format as its inventor documents it;
    patterns are shell patterns on the model id."""

    max_tokens_field: str = "max_completion_tokens"
    seed_field: str = "seed"
    stop: bool = True
    """Whether stop sequences are taken."""
    thinking: ThinkingStyle = "effort"
    thinking_off: str | None = "none"
    """The effort that means "do not think"; none if the field is left out instead."""
    effort_models: tuple[str, ...] = ("*",)
    """Models that take a reasoning effort."""
    thinks_streamed_only: bool = False
    """Whether thinking must be switched off for a request that does not stream."""
    thinks_unforced_only: bool = False
    """Whether thinking must be switched off for a request that forces a call."""
    reasoning_back: Literal["never", "with_calls", "always"] = "never"
    """When an assistant message carries its reasoning back."""
    reasoning_back_field: Literal["reasoning_content", "reasoning_details"] = "reasoning_content"
    output: Literal["json_schema", "json_object", "tool"] = "json_schema"
    no_tools_models: tuple[str, ...] = ()
    no_sampling_models: tuple[str, ...] = ()
    """Models that refuse temperature and top_p."""
    call_ids: Literal["free", "alnum9"] = "free"
    stream_usage: bool = True
    """Whether `stream_options` may be sent."""
    parallel_calls: bool = True
    """Whether `parallel_tool_calls` may be sent."""
    tool_choice_required: str = "required"
    strict_tools: bool = True
    server_tools: Literal["field", "tool"] = "field"
    """Where Chat Completions is told of a provider-side tool: a field of its own, or an entry among the tools."""
    custom_tools: bool = False
    """Whether tools with a grammar are native; elsewhere they take one string parameter."""
    assistant_after_tool: bool = False
    """Whether a user message may not directly follow a tool message."""
    cache_key: bool = False
    """Whether `prompt_cache_key` may be sent."""
    audio: bool = False
    files: bool = False
    body: dict[str, Any] = {}
    """Fields that this endpoint always wants."""
    adaptive_models: tuple[str, ...] = ()
    """Anthropic models that take adaptive thinking with an effort instead of a token budget."""
    level_models: tuple[str, ...] = ()
    """Gemini models that take a thinking level instead of a token budget."""
    server_state: bool = False
    """OpenAI Responses only: let the provider keep the conversation and send only what is new."""


class Endpoint(Value, frozen=True, kw_only=True):
    """One place that answers model requests. `base_url` ends without a slash."""

    name: str
    wire: WireName
    base_url: str
    key_env: tuple[str, ...] = ()
    base_url_env: tuple[str, ...] = ()
    base_url_from: str = ""
    """The variable of the environment that said `base_url`; empty if none did."""
    base_url_suffix: str = ""
    """What is added to a base URL from the environment that lacks it."""
    auth_header: str = "Authorization"
    auth_scheme: str = "Bearer"
    needs_key: bool = True
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    quirks: Quirks = Quirks()


def matches(model: str, patterns: tuple[str, ...]) -> bool:
    """Whether a model id fits one of some shell patterns; case does not count."""
    return any(fnmatch.fnmatchcase(model.lower(), pattern) for pattern in patterns)


def compatible(name: str, base_url: str, key: str, *, base_env: str = "", quirks: Quirks, **more: Any) -> Endpoint:
    """An endpoint that speaks Chat Completions."""
    return Endpoint(
        name=name,
        wire="openai_chat",
        base_url=base_url,
        key_env=(key,) if key else (),
        base_url_env=(base_env or f"{name.upper().replace('-', '_')}_BASE_URL",),
        quirks=quirks,
        **more,
    )


OPENAI_QUIRKS = Quirks(
    custom_tools=True,
    cache_key=True,
    audio=True,
    files=True,
    no_sampling_models=("o1*", "o3*", "o4*", "gpt-5", "gpt-5-*"),
)
OLDER = Quirks(max_tokens_field="max_tokens", strict_tools=False)
"""What most compatible endpoints speak: the format as it was before reasoning models."""


def older(**changes: Any) -> Quirks:
    return msgspec.structs.replace(OLDER, **changes)


ENDPOINTS: dict[str, Endpoint] = {
    endpoint.name: endpoint
    for endpoint in (
        Endpoint(
            name="anthropic",
            wire="anthropic",
            base_url="https://api.anthropic.com",
            key_env=("ANTHROPIC_API_KEY",),
            base_url_env=("ANTHROPIC_BASE_URL",),
            auth_header="x-api-key",
            auth_scheme="",
            headers={"anthropic-version": "2023-06-01"},
            quirks=Quirks(
                adaptive_models=("claude-opus-4-6*", "claude-opus-4-7*", "claude-sonnet-4-6*", "claude-*-5*"),
            ),
        ),
        Endpoint(
            name="openai",
            wire="openai_chat",
            base_url="https://api.openai.com/v1",
            key_env=("OPENAI_API_KEY",),
            base_url_env=("OPENAI_BASE_URL",),
            quirks=OPENAI_QUIRKS,
        ),
        Endpoint(
            name="openai-responses",
            wire="openai_responses",
            base_url="https://api.openai.com/v1",
            key_env=("OPENAI_API_KEY",),
            base_url_env=("OPENAI_BASE_URL",),
            quirks=OPENAI_QUIRKS,
        ),
        Endpoint(
            name="gemini",
            wire="gemini",
            base_url="https://generativelanguage.googleapis.com",
            key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            base_url_env=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
            auth_header="x-goog-api-key",
            auth_scheme="",
            quirks=Quirks(level_models=("gemini-3*",)),
        ),
        compatible(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            quirks=older(thinking="reasoning", reasoning_back="always", reasoning_back_field="reasoning_details"),
        ),
        compatible(
            "deepseek",
            "https://api.deepseek.com",
            "DEEPSEEK_API_KEY",
            quirks=older(
                thinking="thinking_type",
                reasoning_back="with_calls",
                output="json_object",
                no_tools_models=("deepseek-reasoner*", "deepseek-r1*"),
                parallel_calls=False,
            ),
        ),
        compatible(
            "qwen",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            "DASHSCOPE_API_KEY",
            base_env="DASHSCOPE_BASE_URL",
            quirks=older(thinking="enable_thinking", thinks_streamed_only=True, output="json_object"),
        ),
        compatible(
            "moonshot",
            "https://api.moonshot.ai/v1",
            "MOONSHOT_API_KEY",
            quirks=older(
                thinking="thinking_type",
                thinks_unforced_only=True,
                reasoning_back="with_calls",
                parallel_calls=False,
            ),
        ),
        compatible(
            "minimax",
            "https://api.minimax.io/v1",
            "MINIMAX_API_KEY",
            quirks=older(
                thinking="none",
                reasoning_back="always",
                reasoning_back_field="reasoning_details",
                output="tool",
                parallel_calls=False,
                body={"reasoning_split": True},
            ),
        ),
        compatible(
            "cerebras",
            "https://api.cerebras.ai/v1",
            "CEREBRAS_API_KEY",
            quirks=older(max_tokens_field="max_completion_tokens", thinking_off=None, strict_tools=True),
        ),
        compatible(
            "groq",
            "https://api.groq.com/openai/v1",
            "GROQ_API_KEY",
            quirks=older(max_tokens_field="max_completion_tokens", server_tools="tool"),
        ),
        compatible(
            "mistral",
            "https://api.mistral.ai/v1",
            "MISTRAL_API_KEY",
            quirks=older(
                seed_field="random_seed",
                thinking="none",
                call_ids="alnum9",
                stream_usage=False,
                tool_choice_required="any",
                assistant_after_tool=True,
            ),
        ),
        compatible(
            "xai",
            "https://api.x.ai/v1",
            "XAI_API_KEY",
            quirks=older(
                thinking_off=None,
                effort_models=("grok-3-mini*", "grok-4.3*", "grok-4.5*", "grok-4.6*", "grok-4.20-multi-agent*"),
                stop=False,
            ),
        ),
        compatible(
            "together",
            "https://api.together.xyz/v1",
            "TOGETHER_API_KEY",
            quirks=older(thinking_off=None, parallel_calls=False),
        ),
        compatible(
            "azure",
            "https://resource-name.openai.azure.com/openai/v1",
            "AZURE_OPENAI_API_KEY",
            base_env="AZURE_OPENAI_ENDPOINT",
            base_url_suffix="/openai/v1",
            auth_header="api-key",
            auth_scheme="",
            quirks=Quirks(no_sampling_models=OPENAI_QUIRKS.no_sampling_models, files=True),
        ),
        compatible(
            "ollama",
            "http://127.0.0.1:11434/v1",
            "",
            base_env="OLLAMA_HOST",
            base_url_suffix="/v1",
            needs_key=False,
            quirks=older(parallel_calls=False),
        ),
        compatible(
            "vllm",
            "http://127.0.0.1:8000/v1",
            "VLLM_API_KEY",
            base_url_suffix="/v1",
            needs_key=False,
            quirks=older(thinking="chat_template", parallel_calls=False),
        ),
        compatible(
            "llamacpp",
            "http://127.0.0.1:8080/v1",
            "LLAMACPP_API_KEY",
            base_url_suffix="/v1",
            needs_key=False,
            quirks=older(thinking="chat_template"),
        ),
    )
}

NEAR_SUFFIXES = (".local", ".localhost", ".internal", ".lan", ".home.arpa", ".svc", ".cluster.local")
"""Names that stay inside of a private network."""

OTHER_NAMES = {
    "google": "gemini",
    "kimi": "moonshot",
    "dashscope": "qwen",
    "alibaba": "qwen",
    "azure-openai": "azure",
    "llama.cpp": "llamacpp",
    "llama-cpp": "llamacpp",
    "grok": "xai",
    "together-ai": "together",
}
"""Other names under which people know these endpoints."""


def configured(endpoint: Endpoint, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint with the base URL that the environment gives, if it gives one. A bare `host:port` is http."""
    for name in endpoint.base_url_env:
        value = environ.get(name, "").strip().rstrip("/")
        if value:
            base_url = full_url(value, endpoint.base_url_suffix)
            return msgspec.structs.replace(endpoint, base_url=base_url, base_url_from=name)
    return endpoint


def address_hint(endpoint: Endpoint) -> str:
    """Where the address of an endpoint that does not answer comes from, and how it is changed; empty for one that
    nobody chose."""
    if endpoint.base_url_from:
        return f": {endpoint.base_url_from} says {endpoint.base_url}"
    if endpoint.base_url_env and is_near(urlsplit(endpoint.base_url).hostname or ""):
        return f": is its server running at {endpoint.base_url}? {' or '.join(endpoint.base_url_env)} names another"
    return ""


def address_problem(endpoint: Endpoint, *, keyed: bool) -> str | None:
    """What is wrong with an endpoint's address; None if it can be used. A key goes in the clear only to this machine
    and to names that no public resolver knows."""
    try:
        parts = urlsplit(endpoint.base_url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"its address {endpoint.base_url!r} is malformed: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return f"its address {endpoint.base_url!r} must be http:// or https:// with a host"
    if any(not letter.isprintable() or letter.isspace() for letter in endpoint.base_url):
        return f"its address {endpoint.base_url!r} holds blanks or control characters"
    if keyed and parts.scheme == "http" and not is_near(host):
        return (
            f"its address {endpoint.base_url!r} is plain http, which shows the key to everybody on the way: use https"
        )
    return None


def is_near(host: str) -> bool:
    """Whether a host is this machine or one of a private network, as far as its name says."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(NEAR_SUFFIXES)
    return address.is_loopback or address.is_private or address.is_link_local


def full_url(value: str, suffix: str) -> str:
    """A base URL as people write it, made whole."""
    if "://" not in value:
        host, _, port = value.rpartition(":")
        host, port = (host, port) if port.isdigit() else (value, "")
        value = f"http://{'127.0.0.1' if host in ('', '0.0.0.0') else host}{':' + port if port else ''}"
    return value if value.endswith(suffix) else value + suffix


def key_from(endpoint: Endpoint, environ: Mapping[str, str]) -> str | None:
    """The key that the environment holds for this endpoint, the first of its names that is set."""
    return next((environ[name] for name in endpoint.key_env if environ.get(name)), None)


def connect(
    endpoint: Endpoint,
    model: str,
    *,
    credential: Credential | None,
    info: ModelInfo | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
) -> Model:
    """A model behind an endpoint. Opens no connection before the first request; `info` tells what it can do, and
    without it the format's usual abilities are assumed."""
    if not model:
        raise UsageError(f"endpoint {endpoint.name!r} needs a model id")
    problem = address_problem(endpoint, keyed=credential is not None)
    if problem is not None:
        variables = " or ".join(endpoint.base_url_env)
        raise UsageError(f"endpoint {endpoint.name!r}: {problem}" + (f" (see {variables})" if variables else ""))
    from windlass.models.transport.http_model import WireModel

    known = info or ModelInfo(name=f"{endpoint.name}/{model}", provider=endpoint.name, model=model)
    return WireModel(endpoint, model, credential=credential, info=known, timeouts=timeouts)
