"""The embedded model: a small language model in this very process, with no key and no network.

It owns one worker thread per loaded file; the event loop never waits for it. It never downloads: `pull` does, when
a person asks for it. It proves the path, it is not clever.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError
from windlass.events.user_folders import cache_folder, is_homeless
from windlass.events.values.blocks import Data, Resource, ResourceLink, Terminal, Text, Value
from windlass.events.values.failures import Failure, FailureKind, FinishReason, failure
from windlass.events.values.items import AssistantItem, HistoryItem
from windlass.events.values.usage import Price, Usage
from windlass.models.base import Delta, Model, ModelInfo, Reply, Request, TextPart
from windlass.models.wires.plain_blocks import as_text, gone

from .repetition import ENDLESS, Repeats

if TYPE_CHECKING:
    import asyncio

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PULL_COMMAND = "windlass models pull embedded"
CACHE_VARIABLE = "WINDLASS_CACHE"

WINDOW_TOKENS = 4_096
OUTPUT_TOKENS_MAX = 1_024
"""The most that one answer may be, and what it is bounded to when nothing is asked for."""
BATCH_TOKENS = 64
"""How much of a prompt is read between two looks at whether the caller is still there."""
THREADS = 1
"""More wait for each other on a busy machine: measured 4 to 17 tokens/s with two, 22 to 41 with one."""

EMBEDDED_INFO = ModelInfo(
    name="embedded/smollm2-135m",
    provider="embedded",
    model="smollm2-135m",
    window_tokens=WINDOW_TOKENS,
    max_output_tokens=OUTPUT_TOKENS_MAX,
    price=Price(input=0, output=0),
    tools=False,
    images=False,
    native_output=True,
)


class LoadProgress(Value, frozen=True, kw_only=True):
    """How far loading is. The engine itself reports nothing in between, so there are two: begun and ready."""

    stage: str
    path: str
    elapsed_ms: int = 0


ProgressHook = Callable[[LoadProgress], None]
"""Told of loading, on the engine's thread."""


def cache_dir(environ: Mapping[str, str] | None = None) -> pathlib.Path:
    """Where model files are kept: WINDLASS_CACHE, else `windlass/models` in the user's cache directory."""
    env = os.environ if environ is None else environ
    if env.get(CACHE_VARIABLE):
        return pathlib.Path(env[CACHE_VARIABLE]).expanduser() / "models"
    base = cache_folder(env)
    if is_homeless(base):
        raise UsageError(f"no home folder is known: set HOME, or {CACHE_VARIABLE}")
    return pathlib.Path(base) / "windlass" / "models"


def model_path(environ: Mapping[str, str] | None = None) -> pathlib.Path:
    """Where the embedded model's file is, or would be."""
    return cache_dir(environ) / MODEL_FILE


def missing(path: pathlib.Path) -> str | None:
    """What stands in the way of using the embedded model, with the one command that helps; none when it is ready."""
    if not path.is_file():
        return f"the embedded model is not on this machine: run '{PULL_COMMAND}' (93 MB, once)"
    if importlib.util.find_spec("xllamacpp") is None:
        return "the embedded model needs its engine: pip install 'windlass[embedded]'"
    return None


def open_embedded(
    *, environ: Mapping[str, str] | None = None, info: ModelInfo | None = None, on_load: ProgressHook | None = None
) -> Model:
    """The embedded model with tool calls, as an agent needs it."""
    from .constrained import ConstrainedModel

    inner = EmbeddedModel(model_path(environ), info=info or EMBEDDED_INFO, on_load=on_load)
    return ConstrainedModel(inner, tiny=True)


class Engine:
    """One loaded file and the one thread that may use it."""

    _loaded: weakref.WeakValueDictionary[tuple[str, int], Engine] = weakref.WeakValueDictionary()
    _guard = threading.Lock()

    def __init__(self, path: str, window: int) -> None:
        self.path = path
        self.window = window
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="windlass-embedded")
        self._server: Any = None
        weakref.finalize(self, self._worker.shutdown, wait=False)

    @classmethod
    def shared(cls, path: str, window: int) -> Engine:
        """The engine for a file: one per process, for as long as a model uses it."""
        with cls._guard:
            engine = cls._loaded.get((path, window))
            if engine is None:
                engine = cls._loaded[path, window] = cls(path, window)
            return engine

    def submit(self, work: Callable[[], None]) -> Any:
        """Runs `work` on the engine's thread, after what was submitted before it."""
        return self._worker.submit(work)

    def server(self, on_load: ProgressHook | None) -> Any:
        """The loaded engine; only for its own thread."""
        if self._server is None:
            begun = time.monotonic()
            report(on_load, LoadProgress(stage="loading", path=self.path))
            self._server = load(self.path, self.window)
            elapsed_ms = int((time.monotonic() - begun) * 1000)
            report(on_load, LoadProgress(stage="ready", path=self.path, elapsed_ms=elapsed_ms))
        return self._server


def report(hook: ProgressHook | None, progress: LoadProgress) -> None:
    if hook is not None:
        hook(progress)


def load(path: str, window: int) -> Any:
    """Loads the file. The engine always opens a loopback port of its own, which nothing of ours uses: it is locked
    with a key that nobody is told."""
    import secrets

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = window
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_threads_http = 1
    params.warmup = False
    params.verbosity = -1
    params.api_keys = [secrets.token_urlsafe(32)]
    params.ui = False
    return xllamacpp.Server(params)


class EmbeddedModel:
    """The bare model: text in, text out, constrained by a schema where the request has an output schema. For tool
    calls it is wrapped in `ConstrainedModel`, which `open_embedded` does."""

    def __init__(
        self, path: str | os.PathLike[str], *, info: ModelInfo = EMBEDDED_INFO, on_load: ProgressHook | None = None
    ) -> None:
        problem = missing(pathlib.Path(path))
        if problem is not None:
            raise UsageError(problem)
        self._info = info
        self._on_load = on_load
        self._engine: Engine | None = Engine.shared(os.path.abspath(path), info.window_tokens)

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        import asyncio

        if self._engine is None:
            raise UsageError("this embedded model is closed: open another")
        answer = Answer(asyncio.get_running_loop(), self._info)
        body = chat_body(request, self._info)
        engine, on_load = self._engine, self._on_load
        work = engine.submit(lambda: answer.run(engine, on_load, body))
        try:
            while True:
                chunk = await answer.chunks.get()
                if isinstance(chunk, str):
                    if request.stream:
                        yield TextPart(text=chunk)
                else:
                    yield chunk
                    return
        finally:
            answer.left.set()
            work.cancel()

    async def close(self) -> None:
        """Lets go of the engine, which is freed when no other model uses the same file."""
        self._engine = None


class Answer:
    """One answer under way: what passes between the worker thread and the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, info: ModelInfo) -> None:
        import asyncio

        self.chunks: asyncio.Queue[str | Reply | Failure] = asyncio.Queue()
        self.left = threading.Event()
        self._loop = loop
        self._info = info
        self._begun = time.monotonic()
        self._written = Repeats()
        self._first_ms: int | None = None
        self._finish: FinishReason | None = None
        self._timings: dict[str, Any] = {}
        self._error: Failure | None = None

    def run(self, engine: Engine, on_load: ProgressHook | None, body: dict[str, Any]) -> None:
        """On the worker thread: generates, and ends with exactly one reply or failure unless nobody listens."""
        try:
            if not self.left.is_set():
                engine.server(on_load).handle_chat_completions(body, self._chunk)
            self._put(self._end())
        except Exception as error:  # the engine's refusals (a schema it cannot follow) and its crashes
            kind: FailureKind = "invalid_request" if isinstance(error, ValueError) else "server_error"
            self._put(self._failed(kind, f"the embedded model refused: {error}", retryable=False))

    def _chunk(self, chunk: dict[str, Any]) -> bool:
        """One piece from the engine. The answer is whether to stop: nobody listens, or it would go on for ever."""
        if "error" in chunk:
            self._error = self._refused(chunk["error"])
        if "timings" in chunk:
            self._timings = chunk["timings"]
        for choice in chunk.get("choices") or ():
            text = choice.get("delta", {}).get("content")
            if text:
                if self._first_ms is None:
                    self._first_ms = self._elapsed_ms()
                self._show(self._written.feed(text))
            if choice.get("finish_reason"):
                self._show(self._written.rest())
                self._finish = "length" if choice["finish_reason"] == "length" else "stop"
        if self._written.endless:
            self._finish = "stop"
        return self._written.endless or self.left.is_set()

    def _show(self, text: str) -> None:
        if text:
            self._put(text)

    def _put(self, piece: str | Reply | Failure) -> None:
        if not self.left.is_set():
            try:
                self._loop.call_soon_threadsafe(self.chunks.put_nowait, piece)
            except RuntimeError:  # the loop is closed: nobody listens any more
                self.left.set()

    def _end(self) -> Reply | Failure:
        if self._error is not None:
            return self._error
        if self._finish is None:
            return self._failed("truncated_reply", "the embedded model stopped without an end")
        written = self._written.text
        if not written:
            return self._failed("empty_reply", "the embedded model wrote nothing")
        cached = self._timings.get("cache_n", 0)
        return Reply(
            blocks=(Text(text=written),),
            finish=self._finish,
            usage=Usage(
                input_tokens=cached + self._timings.get("prompt_n", 0),
                output_tokens=self._timings.get("predicted_n", 0),
                cache_read_tokens=cached,
            ),
            model=self._info.model,
            provider=self._info.provider,
            duration_ms=self._elapsed_ms(),
            first_output_ms=self._first_ms,
            warnings=(ENDLESS,) if self._written.endless else (),
        )

    def _refused(self, error: dict[str, Any]) -> Failure:
        message = f"the embedded model refused: {error.get('message')}"
        if error.get("type") == "exceed_context_size_error":
            sizes = {"limit": error.get("n_ctx"), "requested": error.get("n_prompt_tokens")}
            return self._failed("context_exceeded", message, **sizes)
        kind: FailureKind = "invalid_request" if error.get("code") == 400 else "server_error"
        return self._failed(kind, message, retryable=False)

    def _failed(self, kind: FailureKind, message: str, **more: Any) -> Failure:
        more |= {"provider": self._info.provider, "model": self._info.model, "duration_ms": self._elapsed_ms()}
        return failure(kind, message, **more)

    def _elapsed_ms(self) -> int:
        return int((time.monotonic() - self._begun) * 1000)


# --- what the engine is told -------------------------------------------------------------------------------------


def chat_body(request: Request, info: ModelInfo) -> dict[str, Any]:
    """The request in the engine's own form. Deterministic unless a temperature is asked for."""
    settings = request.settings
    asked = settings.max_output_tokens or OUTPUT_TOKENS_MAX
    body: dict[str, Any] = {
        "messages": messages(request),
        "max_tokens": min(asked, info.max_output_tokens or OUTPUT_TOKENS_MAX),
        "temperature": settings.temperature or 0.0,
        "stream": True,
        # What was used so far, in every piece: an answer may be left before its end.
        "timings_per_token": True,
        # Progress on the prompt gives the engine's caller a say before the first token.
        "return_progress": True,
        "cache_prompt": True,
    }
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.seed is not None:
        body["seed"] = settings.seed
    if settings.stop:
        body["stop"] = list(settings.stop)
    if request.output is not None:
        schema = {"name": request.output.name, "schema": request.output.json_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def messages(request: Request) -> list[dict[str, str]]:
    """The conversation as plain messages. Tool calls and results are `ConstrainedModel`'s to put into words."""
    heads = "\n\n".join(part for part in (request.instructions, *request.knowledge) if part)
    conversation = [{"role": "system", "content": heads}] if heads else []
    conversation += [message(item) for item in request.items]
    if request.task_state:
        conversation.append({"role": "user", "content": request.task_state})
    return conversation


def message(item: HistoryItem) -> dict[str, str]:
    """One item in words; what is no text is left out, and said so."""
    role = "assistant" if isinstance(item, AssistantItem) else "user"
    words = [_words(part) for part in item.content]
    return {"role": role, "content": "\n".join(words) or "..."}


def _words(part: Any) -> str:
    """A part as text, or that there is something which this model cannot be shown."""
    if isinstance(part, Text):
        return part.text
    text = as_text(part) if isinstance(part, Data | ResourceLink | Resource | Terminal) else None
    return text if text is not None else gone(part, "cannot be shown to this model")
