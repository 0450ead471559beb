"""Which model a name means, why it was chosen, what it can do and what it costs.

Resolution reads the environment that it is given and, only when nothing was named, asks a local Ollama whether it is
there. It never downloads anything and never shows a key.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import UsageError
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.blocks import Value
from windlass.events.values.usage import Price
from windlass.models.base import Model, ModelInfo

from . import data
from .endpoints import ENDPOINTS, OTHER_NAMES, Credential, Endpoint, configured, connect, key_from, matches

if TYPE_CHECKING:
    from windlass.models.transport.timeouts import Timeouts

MODEL_VARIABLE = "WINDLASS_MODEL"
"""Names a model where the code names none."""
EMBEDDED = "embedded"
EMBEDDED_NAMES = (EMBEDDED, "embedded/smollm2-135m")
OLLAMA_TIMEOUT_S = 0.3
"""How long a local Ollama may take to say that it is there."""
OLLAMA_ANSWER_BYTES_MAX = 1_000_000
OLLAMA_WINDOW_TOKENS = 4_096
"""What Ollama cuts a prompt to unless it was started with more (OLLAMA_CONTEXT_LENGTH)."""
NEAREST_MAX = 4
NEAREST_CUTOFF = 0.7
"""How much alike two names must be for one to be a slip of the other."""
DOLLAR_MICROS = 1_000_000
FREE = Price(input=0, output=0)

OllamaProbe = Callable[[str], tuple[str, ...] | None]
"""Given the address of an Ollama: its models, or none when nobody answers there."""


class Catalogue(Value, frozen=True, kw_only=True):
    """Models, short names and endpoints, as a plain value: each `with_…` gives a new one."""

    models: dict[str, ModelInfo]
    aliases: dict[str, str]
    endpoints: dict[str, Endpoint]

    def with_model(self, info: ModelInfo) -> Catalogue:
        """One more model, or other facts about a known one."""
        return msgspec.structs.replace(self, models={**self.models, info.name: info})

    def with_price(self, name: str, price: Price) -> Catalogue:
        """Another price for a model, known or not."""
        return self.with_model(msgspec.structs.replace(self.describe(self.full_name(name)), price=price))

    def with_alias(self, alias: str, name: str) -> Catalogue:
        """A short name of one's own."""
        if "/" in alias:
            raise UsageError(f"a short name has no slash, got {alias!r}")
        return msgspec.structs.replace(self, aliases={**self.aliases, alias: self.full_name(name)})

    def with_endpoint(self, endpoint: Endpoint) -> Catalogue:
        """One more place to ask, reached as `<its name>/<model>`."""
        return msgspec.structs.replace(self, endpoints={**self.endpoints, endpoint.name: endpoint})

    def full_name(self, name: str) -> str:
        """`provider/model` for any name; raises `UsageError` with the nearest names for one that means nothing."""
        wanted = name.strip()
        if wanted.lower() in EMBEDDED_NAMES:
            return EMBEDDED_NAMES[1]
        provider, slash, model = wanted.partition("/")
        if not slash:
            return self._short(wanted)
        known = OTHER_NAMES.get(provider.lower(), provider.lower())
        if known not in self.endpoints:
            near = nearest(provider, [*self.endpoints, *OTHER_NAMES, EMBEDDED])
            raise UsageError(f"no provider {provider!r}{near}: run 'windlass models' to list what there is")
        if not model:
            raise UsageError(f"{name!r} names no model: write {provider}/<model>")
        return f"{known}/{model}"

    def _short(self, name: str) -> str:
        alias = self.aliases.get(name.lower())
        if alias is not None:
            return alias
        full_names = [full for full, info in self.models.items() if name.lower() in short_names(info)]
        if len(full_names) == 1:
            return full_names[0]
        if full_names:
            raise UsageError(f"{name!r} is served by several providers: write {' or '.join(sorted(full_names))}")
        short = [alias for info in self.models.values() for alias in short_names(info)]
        near = nearest(name, [*self.aliases, *short, EMBEDDED])
        raise UsageError(f"no model {name!r}{near}: run 'windlass models' to list them, or write provider/model")

    def describe(self, full: str) -> ModelInfo:
        """What is known about a full name; for a model that is not listed, what its endpoint lets one assume."""
        info = self.models.get(full)
        if info is not None:
            return info
        provider, _, model = full.partition("/")
        if provider == "openai-responses" and (same := self.models.get(f"openai/{model}")):
            return msgspec.structs.replace(same, name=full, provider=provider)
        endpoint = self.endpoints[provider]
        return ModelInfo(
            name=full,
            provider=provider,
            model=model,
            price=None if endpoint.needs_key else FREE,
            tools=not matches(model, endpoint.quirks.no_tools_models),
            native_output=endpoint.quirks.output == "json_schema",
        )


def short_names(info: ModelInfo) -> tuple[str, ...]:
    """How a model may be called without its provider."""
    model = info.model.lower()
    return (model, model.rpartition("/")[2]) if "/" in model else (model,)


def nearest(name: str, names: list[str]) -> str:
    """` (did you mean …?)` with the names that look most alike, or nothing."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=NEAREST_MAX, cutoff=NEAREST_CUTOFF)
    return f" (did you mean {', '.join(repr(by_lower[lower_name]) for lower_name in close)}?)" if close else ""


@cache
def default_catalogue() -> Catalogue:
    """The models that ship with this version."""
    rows = [info_of(provider, row) for provider, models in data.MODELS.items() for row in models]
    models = {info.name: info for info in rows}
    models[EMBEDDED_NAMES[1]] = embedded_info()
    return Catalogue(models=models, aliases=dict(data.ALIASES), endpoints=dict(ENDPOINTS))


def info_of(provider: str, row: data.Row) -> ModelInfo:
    """A row of the table, as what the rest of the system reads."""
    model, window, output_max, price, able = row
    return ModelInfo(
        name=f"{provider}/{model}",
        provider=provider,
        model=model,
        window_tokens=window,
        max_output_tokens=output_max,
        price=None if price is None else usd(*price, as_of=data.PRICES_AS_OF),
        tools="t" in able,
        images="i" in able,
        documents="d" in able,
        native_output="o" in able,
        thinking="r" in able,
    )


def usd(
    input: float,
    output: float,
    cache_read: float | None = None,
    cache_write: float | None = None,
    *,
    as_of: str | None = None,
) -> Price:
    """A price from dollars per million tokens, as price lists print it."""

    def micros(dollars: float) -> int:
        return round(dollars * DOLLAR_MICROS)

    return Price(
        input=micros(input),
        output=micros(output),
        cache_read=None if cache_read is None else micros(cache_read),
        cache_write=None if cache_write is None else micros(cache_write),
        as_of=as_of,
    )


def embedded_info() -> ModelInfo:
    from windlass.models.embedded.model import EMBEDDED_INFO

    return EMBEDDED_INFO


# --- resolution --------------------------------------------------------------------------------------------------


def resolve(
    name: str | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    catalogue: Catalogue | None = None,
    probe: OllamaProbe | None = None,
) -> ModelInfo:
    """Which model to use and why: the one named, else one whose key is in the environment, else a local Ollama's,
    else the embedded one. Raises `UsageError` for a name that means nothing."""
    known = catalogue or default_catalogue()
    env = os.environ if environ is None else environ
    for endpoint in known.endpoints.values():
        for name_of_key in endpoint.key_env:
            SECRETS.add_key(env.get(name_of_key))
    if name is not None:
        return named(known, name, env, probe, "named explicitly")
    if env.get(MODEL_VARIABLE, "").strip():
        try:
            return named(known, env[MODEL_VARIABLE], env, probe, f"{MODEL_VARIABLE} names it")
        except UsageError as error:
            raise UsageError(f"{MODEL_VARIABLE}: {error}") from None
    for provider, model in data.DEFAULTS.items():
        endpoint = known.endpoints[provider]
        variable = next((key for key in endpoint.key_env if env.get(key, "").strip()), None)
        if variable is not None:
            return explained(known.describe(f"{provider}/{model}"), f"{variable} is set")
    local = local_ollama(known, env, probe)
    if local is not None:
        return local
    return explained(embedded_info(), "no key is in the environment and no local Ollama answers")


def named(known: Catalogue, name: str, env: Mapping[str, str], probe: OllamaProbe | None, why: str) -> ModelInfo:
    """The model of a name that somebody wrote down."""
    if name.strip().lower() == "ollama":
        local = local_ollama(known, env, probe)
        if local is None:
            at = ollama_address(known, env)
            raise UsageError(f"no Ollama with a model answers at {at}: start it and pull one, or set OLLAMA_HOST")
        return local
    info = explained(known.describe(known.full_name(name)), why)
    return windowed(info, env) if info.provider == "ollama" else info


def explained(info: ModelInfo, why: str) -> ModelInfo:
    return msgspec.structs.replace(info, why=why)


def windowed(info: ModelInfo, env: Mapping[str, str]) -> ModelInfo:
    """An Ollama model with the window that its server really keeps."""
    asked = env.get("OLLAMA_CONTEXT_LENGTH", "")
    window = int(asked) if asked.isdecimal() and int(asked) > 0 else OLLAMA_WINDOW_TOKENS
    return msgspec.structs.replace(info, window_tokens=window)


def ollama_address(known: Catalogue, env: Mapping[str, str]) -> str:
    return configured(known.endpoints["ollama"], env).base_url.removesuffix("/v1")


def local_ollama(known: Catalogue, env: Mapping[str, str], probe: OllamaProbe | None) -> ModelInfo | None:
    """The first model of a running Ollama, if there is one."""
    at = ollama_address(known, env)
    models = (probe or probe_ollama)(at)
    if not models:
        return None
    info = known.describe(f"ollama/{models[0]}")
    return explained(windowed(info, env), f"an Ollama answers at {at}")


class OllamaModel(msgspec.Struct):
    name: str


class OllamaTags(msgspec.Struct):
    models: list[OllamaModel] = []


def probe_ollama(address: str) -> tuple[str, ...] | None:
    """Asks an Ollama for its models, for at most a third of a second. Blocks that long."""
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=OLLAMA_TIMEOUT_S)
        try:
            connection.request("GET", f"{parts.path}/api/tags")
            response = connection.getresponse()
            body = response.read(OLLAMA_ANSWER_BYTES_MAX)
        finally:
            connection.close()
        if response.status != 200:
            return None
        return tuple(model.name for model in msgspec.json.decode(body, type=OllamaTags).models)
    except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError):
        return None


# --- opening -----------------------------------------------------------------------------------------------------


def open_model(
    name: str | ModelInfo | None = None,
    *,
    credential: Credential | None = None,
    environ: Mapping[str, str] | None = None,
    catalogue: Catalogue | None = None,
    probe: OllamaProbe | None = None,
    timeouts: Timeouts | None = None,
) -> Model:
    """A model that answers, from a name or from what `resolve` gave. No connection is opened before the first
    request; a missing key is a failure of that request, a missing embedded model is a `UsageError` now."""
    known = catalogue or default_catalogue()
    env = os.environ if environ is None else environ
    info = name if isinstance(name, ModelInfo) else resolve(name, env, catalogue=known, probe=probe)
    if info.provider == EMBEDDED:
        from windlass.models.embedded.model import open_embedded

        try:
            return open_embedded(environ=env, info=info)
        except UsageError as error:
            if name is not None:
                raise
            raise UsageError(f"{error}, or set a key such as ANTHROPIC_API_KEY") from None
    if info.provider not in known.endpoints:
        raise UsageError(f"no endpoint {info.provider!r} for {info.name!r}: add it by catalogue.with_endpoint(...)")
    endpoint = configured(known.endpoints[info.provider], env)
    endpoint, credential = signed(endpoint, credential, env)
    more = {} if timeouts is None else {"timeouts": timeouts}
    model: Model = connect(endpoint, info.model, credential=credential, info=info, **more)
    if info.tools:
        return model
    from windlass.models.embedded.constrained import ConstrainedModel

    return ConstrainedModel(model)


def signed(
    endpoint: Endpoint, credential: Credential | None, env: Mapping[str, str]
) -> tuple[Endpoint, Credential | None]:
    """The credential for an endpoint, and the endpoint with the header that the credential wants."""
    from .credentials import Credentials, from_callable, from_environment, from_value

    if credential is None:
        if endpoint.key_env and (endpoint.needs_key or key_from(endpoint, env)):
            credential = from_environment(endpoint, environ=env)
    elif isinstance(credential, str):
        credential = from_value(endpoint, credential)
    elif isinstance(credential, Credentials):
        credential.check_bound_to(endpoint)
        endpoint = msgspec.structs.replace(
            endpoint,
            auth_header=endpoint.auth_header if credential.header is None else credential.header,
            auth_scheme=endpoint.auth_scheme if credential.scheme is None else credential.scheme,
        )
    elif not hasattr(credential, "refused"):
        credential = from_callable(endpoint, credential)
    return endpoint, credential
