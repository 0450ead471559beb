"""A model whose answers are written down beforehand: exact, offline and quick.

It never touches the network, a clock or randomness; waiting goes through the `sleep` that the caller gives.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import (
    CallSlot,
    Data,
    JsonObject,
    Reasoning,
    Refusal,
    ReplyBlock,
    ServerTool,
    Text,
    Value,
    plain_text,
)
from windlass.events.values.failures import Failure, FailureKind, FinishReason, failure
from windlass.events.values.items import AssistantItem, ProposedCall, ResultItem, UserItem
from windlass.events.values.usage import Price, Usage
from windlass.models.base import (
    CallPartDelta,
    Delta,
    ModelInfo,
    ReasoningPart,
    RefusalPart,
    Reply,
    Request,
    TextPart,
    complete_args,
)

REQUESTS_KEPT_MAX = 10_000
"""Requests that a scripted model remembers; the oldest go first."""

SHOWN_CHARS_MAX = 120
"""How much of the last item an error message shows."""

SCRIPTED_USAGE = Usage(input_tokens=10, output_tokens=10)
"""What every answer reports unless its turn says otherwise: fixed, so that tests can compare whole values."""

SCRIPTED_INFO = ModelInfo(
    name="scripted",
    provider="scripted",
    model="scripted",
    price=Price(input=0, output=0),
    documents=True,
    thinking=True,
    why="given in code",
)


class ScriptedCall(Value, frozen=True, kw_only=True):
    """A tool call in a script. Exactly one of `args`, `text` (custom tools) and `malformed` is set."""

    tool: str
    args: JsonObject | None = None
    text: str | None = None
    malformed: str | None = None


class Pause(Value, frozen=True, kw_only=True):
    """Waits before the next part; with `ms` None it waits until the request is cancelled."""

    ms: int | None = None


Part = str | Text | Reasoning | Refusal | ServerTool | ScriptedCall | Pause | Failure


class Turn(Value, frozen=True, kw_only=True):
    """One answer: parts in their order, and what it reports. Each part is one delta; text parts that stand side by
    side become one block. A `Failure` among the parts ends the stream there."""

    parts: tuple[Part, ...]
    usage: Usage | None = None
    finish: FinishReason | None = None
    warnings: tuple[str, ...] = ()
    response_id: str | None = None
    provider_data: JsonObject | None = None


AnyTurn = Part | Turn | Reply | Sequence[Part]
Answer = Callable[[Request], AnyTurn | Awaitable[AnyTurn]]
Script = Sequence[AnyTurn | Answer] | Answer
Sleep = Callable[[float], Awaitable[None]]


def turn(
    *parts: Part,
    usage: Usage | None = None,
    finish: FinishReason | None = None,
    warnings: tuple[str, ...] = (),
    response_id: str | None = None,
    provider_data: JsonObject | None = None,
) -> Turn:
    """An answer with more than its parts."""
    return Turn(
        parts=parts,
        usage=usage,
        finish=finish,
        warnings=warnings,
        response_id=response_id,
        provider_data=provider_data,
    )


def call(tool: str, /, **args: Any) -> ScriptedCall:
    """A call of `tool` with these arguments."""
    return ScriptedCall(tool=tool, args=args)


def call_text(tool: str, text: str) -> ScriptedCall:
    """A call of a custom (grammar) tool, which takes text."""
    return ScriptedCall(tool=tool, text=text)


def call_malformed(tool: str, raw: str) -> ScriptedCall:
    """A call whose arguments are not a JSON object."""
    return ScriptedCall(tool=tool, malformed=raw)


def fail(kind: FailureKind, message: str = "", **more: Any) -> Failure:
    """A failure as a turn, or as the part at which a turn breaks off."""
    return failure(kind, message or f"scripted failure: {kind}", **more)


def pause(ms: int) -> Pause:
    """Waits `ms` milliseconds of the model's own `sleep`."""
    return Pause(ms=ms)


def hang() -> Pause:
    """Waits for ever: the request ends only by being cancelled."""
    return Pause()


def think(text: str, **more: Any) -> Reasoning:
    """Reasoning before an answer."""
    return Reasoning(text=text, **more)


ENDS = frozenset({Reply, Failure})
"""What comes last."""


def by_history(turns: Sequence[AnyTurn | Answer]) -> Answer:
    """A script that keeps no place of its own: the turn is chosen by how many replies the history holds, so
    a request that is sent again, also by another process, gets the same answer."""

    def answer(request: Request) -> AnyTurn | Awaitable[AnyTurn]:
        number = sum(isinstance(item, AssistantItem) for item in request.items)
        if number >= len(turns):
            raise exhausted(len(turns), number + 1, request)
        chosen = turns[number]
        return chosen(request) if callable(chosen) else chosen

    return answer


class ScriptedModel:
    """Answers from a list, in the order the requests come, or from a function of the request.

    `requests` holds what was asked, `turns_taken` how often, `cancelled` how many answers were cut off by the
    caller. A list that has no more turns raises `UsageError` and names the request that came too much."""

    def __init__(
        self,
        script: Script,
        *,
        info: ModelInfo | None = None,
        usage: Usage = SCRIPTED_USAGE,
        sleep: Sleep | None = None,
    ) -> None:
        if isinstance(script, str):
            raise UsageError(f"a script is a list of turns or a function, got the text {script!r}: put it in a list")
        self._script = script
        self._info = info or SCRIPTED_INFO
        self._usage = usage
        self._sleep = sleep
        self.requests: list[Request] = []
        self.turns_taken = 0
        self.cancelled = 0
        self.closed = False

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        number = self._note(request)
        chosen = self._script(request) if callable(self._script) else self._turn_at(number, request)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        done = False
        try:
            async with aclosing(self._play(chosen, number, request)) as pieces:
                async for piece in pieces:
                    done = type(piece) in ENDS
                    yield piece
        finally:
            self.cancelled += not done

    async def close(self) -> None:
        self.closed = True

    def _note(self, request: Request) -> int:
        """Keeps a copy (the caller's list of items grows later) and says which request this is, from 1."""
        self.requests.append(msgspec.structs.replace(request, items=list(request.items)))
        del self.requests[:-REQUESTS_KEPT_MAX]
        self.turns_taken += 1
        return self.turns_taken

    def _turn_at(self, number: int, request: Request) -> AnyTurn | Awaitable[AnyTurn]:
        turns = cast("Sequence[AnyTurn | Answer]", self._script)
        if number > len(turns):
            raise exhausted(len(turns), number, request)
        chosen = turns[number - 1]
        return chosen(request) if callable(chosen) else chosen

    async def _play(
        self, chosen: AnyTurn, number: int, request: Request
    ) -> AsyncGenerator[Delta | Reply | Failure, None]:
        if isinstance(chosen, Reply):
            if request.stream:
                for delta in deltas_of(chosen):
                    yield delta
            yield chosen
            return
        told = as_turn(chosen, number)
        ordinal = 0
        for part in told.parts:
            if isinstance(part, str):  # most are, and a long answer has many
                if request.stream:
                    yield TextPart(text=part)
                continue
            if isinstance(part, Failure):
                yield msgspec.structs.replace(
                    part, provider=part.provider or self._info.provider, model=part.model or self._info.model
                )
                return
            if isinstance(part, Pause):
                await self._wait(part.ms)
                continue
            if request.stream:
                for delta in part_deltas(part, ordinal):
                    yield delta
            ordinal += isinstance(part, ScriptedCall)
        yield reply_of(told, number, self._info, told.usage or self._usage)

    async def _wait(self, ms: int | None) -> None:
        import asyncio

        if ms is None:
            await asyncio.get_running_loop().create_future()
        else:
            await (self._sleep or asyncio.sleep)((ms or 0) / 1000)


def as_turn(chosen: AnyTurn, number: int) -> Turn:
    """Any way of writing a turn, as a `Turn`."""
    if isinstance(chosen, Turn):
        return chosen
    if isinstance(chosen, Part):
        return Turn(parts=(chosen,))
    if isinstance(chosen, Sequence) and all(isinstance(part, Part) for part in chosen):
        return Turn(parts=tuple(chosen))
    raise UsageError(
        f"turn {number} of the script is {chosen!r}: give text, a call(...), a fail(...), a list of these, a turn(...) "
        "or a Reply"
    )


def reply_of(told: Turn, number: int, info: ModelInfo, usage: Usage) -> Reply:
    """The complete answer that a turn without failures stands for."""
    blocks: list[ReplyBlock] = []
    calls: list[ProposedCall] = []
    said: list[str] = []
    """The texts since the last part of another kind: together they are one block."""
    for part in (*told.parts, None):
        if isinstance(part, str):
            said.append(part)
            continue
        if isinstance(part, Text):
            said.append(part.text)
            continue
        if isinstance(part, Pause | Failure):
            continue
        if said:
            blocks.append(Text(text="".join(said)))
            said = []
        if isinstance(part, ScriptedCall):
            blocks.append(CallSlot(ordinal=len(calls)))
            calls.append(proposed(part, len(calls), number))
        elif isinstance(part, Reasoning | Refusal | ServerTool):
            blocks.append(part)
    return Reply(
        blocks=tuple(blocks),
        calls=tuple(calls),
        finish=told.finish or natural_finish(blocks, calls),
        usage=usage,
        model=info.model,
        provider=info.provider,
        request_id=f"req_{number}",
        response_id=told.response_id,
        provider_data=told.provider_data,
        warnings=told.warnings,
    )


def natural_finish(blocks: list[ReplyBlock], calls: list[ProposedCall]) -> FinishReason:
    """Why such an answer would end, where the turn does not say."""
    if calls:
        return "tool_calls"
    return "refusal" if any(isinstance(block, Refusal) for block in blocks) else "stop"


def proposed(part: ScriptedCall, ordinal: int, number: int) -> ProposedCall:
    """The call as a provider would hand it on."""
    error = None
    if part.malformed is not None:
        _, error = complete_args(part.malformed)
    return ProposedCall(
        ordinal=ordinal,
        tool=part.tool,
        args=part.args,
        text=part.text,
        malformed=part.malformed,
        error=error,
        provider_call_id=f"call_{number}_{ordinal}",
    )


def part_deltas(part: Part, ordinal: int) -> Iterator[Delta]:
    """What a client sees of one part while it is written."""
    if isinstance(part, str):
        yield TextPart(text=part)
    elif isinstance(part, Text):
        yield TextPart(text=part.text)
    elif isinstance(part, Reasoning):
        if part.text:
            yield ReasoningPart(text=part.text)
    elif isinstance(part, Refusal):
        yield RefusalPart(text=part.text)
    elif isinstance(part, ScriptedCall):
        yield CallPartDelta(ordinal=ordinal, tool=part.tool)
        yield CallPartDelta(ordinal=ordinal, fragment=written_args(part.args, part.text, part.malformed))


def deltas_of(reply: Reply) -> Iterator[Delta]:
    """The deltas that add up to a finished reply, one for each block and two for each call."""
    for block in reply.blocks:
        if isinstance(block, CallSlot):
            proposal = reply.calls[block.ordinal]
            yield CallPartDelta(ordinal=block.ordinal, tool=proposal.tool)
            fragment = written_args(proposal.args, proposal.text, proposal.malformed)
            yield CallPartDelta(ordinal=block.ordinal, fragment=fragment)
        elif isinstance(block, Text | Reasoning | Refusal):
            yield from part_deltas(block, 0)


def written_args(args: JsonObject | None, text: str | None, malformed: str | None) -> str:
    """The arguments as the model would have written them."""
    if malformed is not None:
        return malformed
    return text if text is not None else msgspec.json.encode(args or {}).decode()


def exhausted(turns: int, number: int, request: Request) -> UsageError:
    """The error for a request that the script has no turn for."""
    return UsageError(
        f"the script has {turns} turn{'s' if turns != 1 else ''} and request {number} came: "
        f"add turn {number}, or find out why it was asked for ({last_said(request)})"
    )


def _result_text(item: ResultItem) -> str:
    """What a tool returned: its text, or its data as JSON."""
    return "\n".join(
        msgspec.json.encode(block.value).decode() if isinstance(block, Data) else plain_text((block,))
        for block in item.content
    )


def last_said(request: Request) -> str:
    """The end of a request, in a few words."""
    if not request.items:
        return "its history is empty"
    item = request.items[-1]
    if isinstance(item, UserItem):
        said = f"user: {plain_text(tuple(item.content))}"
    elif isinstance(item, ResultItem):
        said = f"result of {item.tool}: {_result_text(item)}"
    else:
        said = "a reply of the model"
    return f"its last item is {said[:SHOWN_CHARS_MAX]!r}"
