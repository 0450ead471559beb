"""Tool calls for models that have none of their own.

Wraps any model that writes text: the tools are put into words, the answer is constrained to one JSON object (a call or
the final answer), and that object becomes a proposed call or text. Arguments are what the model itself wrote: they are
parsed, never repaired.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from windlass.events.values.blocks import CallSlot, JsonObject, Reasoning, ReplyBlock, Text
from windlass.events.values.failures import Failure, failure
from windlass.events.values.items import (
    AssistantItem,
    CallPart,
    HistoryItem,
    OutputSchema,
    ProposedCall,
    ToolSchema,
    UserItem,
)
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Delta, Model, ModelInfo, Reply, Request

from .json_reply import Watch, read_reply, remaining
from .repetition import ENDLESS
from .solved_examples import solved_examples, tool_lines
from .tool_prompt import (
    ANSWER_NAMES,
    TEXT_KEY,
    Example,
    default_examples,
    example_items,
    in_words,
    reply_schema,
    said_as_json,
    tool_words,
    written,
)

ATTEMPTS_MAX = 3
"""How often one answer is asked for, the first time included."""
EXAMPLES_MAX = 8
"""How many example turns a prompt may hold."""
WRITTEN_MAX = 2_000
"""How much of an answer that could not be read is shown back to the model."""


class ConstrainedModel:
    """A model with tool calls, made of one without. One call at a time; requests without tools pass through.

    `tiny` is for models that can do little but copy: they are told only of the arguments that a call needs, are shown
    solved turns that are like what is asked, and may not repeat a call whose result they have."""

    def __init__(
        self,
        inner: Model,
        *,
        examples: Sequence[Example] | None = None,
        attempts_max: int = ATTEMPTS_MAX,
        tiny: bool = False,
    ) -> None:
        self.inner = inner
        self._examples = None if examples is None else tuple(examples)[:EXAMPLES_MAX]
        self._attempts_max = max(1, attempts_max)
        self._tiny = tiny

    @property
    def info(self) -> ModelInfo:
        return msgspec.structs.replace(self.inner.info, tools=True)

    async def close(self) -> None:
        await self.inner.close()

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        tools = offered(request)
        if not tools:
            plain = msgspec.structs.replace(request, tools=(), items=[in_words(item) for item in request.items])
            async with aclosing(opened(self.inner, plain)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        asking = Asking(request, tools, self._examples, tiny=self._tiny)
        visible = False
        while True:
            async with aclosing(self._attempt(asking)) as turns:
                async for told in turns:
                    if isinstance(told, Retry):
                        break
                    visible = True
                    yield told
                else:
                    return
            if visible or asking.attempt >= self._attempts_max:
                yield asking.gave_up(self.inner.info)
                return

    async def _attempt(self, asking: Asking) -> AsyncGenerator[Delta | Reply | Failure | Retry, None]:
        """One request to the inner model. Ends with a reply, a failure, or a `Retry` after noting what was wrong."""
        request = asking.next_request()
        watch = Watch(asking.answer) if request.stream and self.inner.info.native_output else None
        shy = bool(asking.made)
        async with aclosing(opened(self.inner, request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Failure):
                    yield Retry() if asking.loosened(piece) else piece
                elif isinstance(piece, Reply):
                    reply = asking.understood(piece)
                    if reply is not None and request.stream:
                        for delta in remaining(reply, None if shy and reply.calls else watch):
                            yield delta
                    yield reply or Retry()
                elif watch is not None:
                    for delta in watch.feed(piece):
                        # A call that may turn out to be a repetition is not announced before it is known.
                        if not (shy and isinstance(delta, CallPartDelta)):
                            yield delta


class Retry:
    """The answer could not be read; what was wrong is noted and may be asked about."""


async def opened(model: Model, request: Request) -> AsyncGenerator[Delta | list[Delta] | Reply | Failure, None]:
    """A model's stream, as something that can be closed."""
    stream = model.stream(request)
    try:
        async for piece in stream:
            yield piece
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


# --- what the inner model is asked --------------------------------------------------------------------------------


class Asking:
    """One request on its way through several attempts."""

    def __init__(
        self, request: Request, tools: tuple[ToolSchema, ...], examples: tuple[Example, ...] | None, *, tiny: bool
    ) -> None:
        self.request = request
        self.tools = {tool.name: tool for tool in tools}
        self.attempt = 0
        self._free = request.settings.tool_choice == "auto"
        self.answer = next(name for name in ANSWER_NAMES if name not in self.tools) if self._free else ""
        self.made = calls_made(request) if tiny and self._free else []
        """The calls since the person spoke last that must not be repeated."""
        self._answering = False
        self._loose = False
        self._corrections: list[HistoryItem] = []
        self._usage = Usage()
        self._duration_ms = 0
        self._error = ""
        if examples is None:
            examples = solved_for(request, tools, self._free) if tiny else default_examples(tools, self._free)
        words = tool_lines(tools, self.answer) if tiny else tool_words(tools, self.answer)
        self._instructions = "\n\n".join(part for part in (request.instructions, words) if part)
        learned = [turn for example in examples for turn in example_items(example, self.answer)]
        # A tiny model does what it saw last, so the examples stand between what was said before and what is asked now.
        begin = spoken_last(request) if tiny else 0
        before = [self._answered(item) for item in request.items[:begin]]
        self._items = [*before, *learned, *(in_words(item) for item in request.items[begin:])]

    def _answered(self, item: HistoryItem) -> HistoryItem:
        """An item of an earlier exchange; an answer in the form that answers have here."""
        if not isinstance(item, AssistantItem) or any(isinstance(part, CallPart) for part in item.content):
            return in_words(item)
        said = "".join(part.text for part in item.content if isinstance(part, Text))
        return written(said_as_json(self.answer, {TEXT_KEY: said})) if self.answer and said else item

    def next_request(self) -> Request:
        self.attempt += 1
        text = {"type": "string"} if self.request.output is None else self.request.output.json_schema
        callable_now = () if self._answering else tuple(self.tools.values())
        schema = reply_schema(callable_now, self.answer, text, loose=self._loose)
        return msgspec.structs.replace(
            self.request,
            instructions=self._instructions,
            items=[*self._items, *self._corrections],
            tools=(),
            server_tools=(),
            output=OutputSchema(name="reply", json_schema=schema, strict=False),
            settings=msgspec.structs.replace(self.request.settings, tool_choice="auto", parallel_calls=None),
        )

    def loosened(self, refused: Failure) -> bool:
        """Whether to ask again with a simpler schema: some engines cannot follow every schema."""
        if self._loose or refused.kind != "invalid_request" or self._corrections:
            return False
        self._loose = True
        self._error = refused.message
        return True

    def understood(self, reply: Reply) -> Reply | None:
        """The reply with its JSON turned into a call or text; none when it could not be read, which is noted."""
        self._usage += reply.usage
        self._duration_ms += reply.duration_ms
        written = "".join(block.text for block in reply.blocks if isinstance(block, Text))
        meant = read_reply(written, self.tools, self.answer, cut=reply.finish == "length" or ENDLESS in reply.warnings)
        if isinstance(meant, str):
            self._note(written, meant)
            return None
        if isinstance(meant, ProposedCall) and (meant.tool, meant.args) in self.made:
            self._answering, self._error = True, f"{meant.tool} was called again with the same arguments"
            return None
        thoughts: tuple[ReplyBlock, ...] = tuple(block for block in reply.blocks if isinstance(block, Reasoning))
        if isinstance(meant, ProposedCall):
            finish = "length" if reply.finish == "length" else "tool_calls"
            return self._with(reply, (*thoughts, CallSlot(ordinal=0)), (meant,), finish)
        return self._with(reply, (*thoughts, meant), (), reply.finish)

    def _with(
        self, reply: Reply, blocks: tuple[ReplyBlock, ...], calls: tuple[ProposedCall, ...], finish: Any
    ) -> Reply:
        return msgspec.structs.replace(
            reply, blocks=blocks, calls=calls, finish=finish, usage=self._usage, duration_ms=self._duration_ms
        )

    def _note(self, written: str, error: str) -> None:
        self._error = error
        self._corrections = [
            AssistantItem(content=(Text(text=written[:WRITTEN_MAX] or "..."),)),
            UserItem(content=(Text(text=f"That could not be used: {error}. Reply with one JSON object only."),)),
        ]

    def gave_up(self, info: ModelInfo) -> Failure:
        return failure(
            "malformed_reply",
            f"no usable answer after {self.attempt} attempts: {self._error}",
            provider=info.provider,
            model=info.model,
            duration_ms=self._duration_ms,
        )


def calls_made(request: Request) -> list[tuple[str, JsonObject | None]]:
    """The calls that were made since the person spoke last."""
    calls: list[tuple[str, JsonObject | None]] = []
    for item in request.items[spoken_last(request) :]:
        if isinstance(item, AssistantItem):
            calls += [(part.tool, part.args) for part in item.content if isinstance(part, CallPart)]
    return calls


def solved_for(request: Request, tools: tuple[ToolSchema, ...], free: bool) -> tuple[Example, ...]:
    """Examples that are like what is asked, or that show how to tell a result once there is one."""
    return solved_examples(tools, free, last_asked(request), told=bool(calls_made(request)))


def spoken_last(request: Request) -> int:
    """The place of what the person said last; the end where they said nothing."""
    places = (place for place in range(len(request.items) - 1, -1, -1) if isinstance(request.items[place], UserItem))
    return next(places, len(request.items))


def last_asked(request: Request) -> str:
    """What the person said last."""
    for item in request.items[spoken_last(request) :][:1]:
        return "\n".join(part.text for part in item.content if isinstance(part, Text))
    return ""


def offered(request: Request) -> tuple[ToolSchema, ...]:
    """The tools that may be called in this request."""
    choice = request.settings.tool_choice
    if choice in ("auto", "required"):
        return request.tools
    return tuple(tool for tool in request.tools if tool.name == choice)
