"""A model that says whatever the seed makes it say: text, calls of every kind, nonsense, failures, silence."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.events.values.blocks import CallSlot, Refusal, Text
from windlass.events.values.failures import Failure, FailureKind, FinishReason, failure
from windlass.events.values.items import ProposedCall
from windlass.events.values.usage import ASIDE, Price, Usage
from windlass.models.base import Delta, ModelInfo, Reply, Request, TextPart

from .loop import ACTOR

if TYPE_CHECKING:
    from .chance import Chance
    from .world import World

FAILURES: tuple[FailureKind, ...] = (
    "rate_limited",
    "rate_limited",
    "overloaded",
    "server_error",
    "connection_reset",
    "idle_timeout",
    "truncated_reply",
    "context_exceeded",
    "auth",
    "invalid_request",
    "content_filtered",
)
PASSING = FAILURES[:6]
"""What is worth another attempt. What is asked aside is asked seldom, and seldom again: whoever asked waits for it."""
HINTS_MS = (None, None, 200, 3_000, 90_000)
HOST_TOOLS = ("look", "look", "put", "put", "pay", "pay", "pay", "risky", "alone", "count", "ui")
NOT_ALWAYS_THERE = ("extra", "tab", "recall", "files", "fetch", "send")
"""Tools that are called where they are offered: mounted ones, and those of some worlds."""
ANSWERS = ('{"fine": true}', '{"fine": false, "score": 3}', '```json\n{"fine": true, "score": 1}\n```')
CALLS_MAX = 4
HANG_S = 120.0
"""A model's own idle time-out: a stream that stalls ends there at the latest."""

ODD_FINISHES: tuple[FinishReason, ...] = ("length", "content_filter", "refusal", "pause")
PRICE = Price(input=1_000_000, output=2_000_000)


class SimModel:
    """Answers at random. Each request is held against the log first: it must be an intent that is kept and open."""

    def __init__(
        self,
        world: World,
        window_tokens: int,
        *,
        name: str = "model",
        spawns: tuple[str, ...] = (),
        eager: float = 0.0,
        answers: Callable[[Chance, Request], str] | None = None,
        ways: Mapping[str, Callable[[Chance], Any]] | None = None,
        contexts: tuple[str, ...] = (),
    ) -> None:
        """`spawns` are the specialists that it has work for it; `eager` is how many of its calls are for them.
        `answers` says what it answers with instead of words; `ways` are tools that it calls where they are offered, and
        what they are given; `contexts` what its specialists begin with, if it says so."""
        self._world = world
        self._spawns = spawns
        self._eager = eager
        self._answers = answers
        self._ways = ways or {}
        self._contexts = contexts
        self._number = 0
        self._info = ModelInfo(
            name=f"sim/{name}",
            provider="sim",
            model=name,
            window_tokens=window_tokens,
            max_output_tokens=min(1_000, window_tokens // 4),
            price=PRICE,
        )

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def close(self) -> None:
        """Nothing is open."""

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        world, chance = self._world, self._world.chance
        actor = ACTOR.get()
        world.watch.model_asked(actor, request)
        world.step(actor, f"model {request.lane}")
        await world.pause(actor, "model.sent")
        for word in ("so ", "it ", "goes ")[: chance.below(4)]:
            yield [TextPart(text=word)]
            await world.pause(actor, "model.streams")
        if chance.hit(world.rates.model_hangs):
            world.reached("model_hangs")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANG_S):
                    await world.healed.wait()
            yield failure("idle_timeout", "the simulated stream stalled")
            return
        if chance.hit(world.rates.model_fails):
            kinds, hints = (PASSING, HINTS_MS[:3]) if request.lane in ASIDE else (FAILURES, HINTS_MS)
            yield failure(chance.one(kinds), "simulated", retry_after_ms=chance.one(hints))
            return
        yield self._reply(request)

    def _reply(self, request: Request) -> Reply:
        world, chance = self._world, self._world.chance
        self._number += 1
        calls: list[ProposedCall] = []
        blocks: list[Any] = []
        odd = chance.hit(world.rates.model_odd)
        if request.lane == "main" and request.tools and chance.hit(max(world.rates.calls, self._restless())):
            names = [tool.name for tool in request.tools if tool.name in NOT_ALWAYS_THERE or tool.name in self._ways]
            calls = [self._call(ordinal, odd, names) for ordinal in range(1 + chance.below(CALLS_MAX))]
        if request.lane == "judge":
            blocks.append(Text(text=chance.one(("allow it", "allow it", "deny it"))))
        elif request.output is not None and not calls and not chance.hit(world.rates.misanswers):
            blocks.append(Text(text=chance.one(ANSWERS)))
        elif self._answers is not None and request.lane == "main" and not calls:
            blocks.append(Text(text=self._answers(chance, request)))
        elif not calls or chance.hit(0.5):
            blocks.append(Text(text="word " * chance.one((1, 20, 200))))
        finish: FinishReason = "tool_calls" if calls else "stop"
        if odd and chance.hit(0.3):
            finish = chance.one(ODD_FINISHES)
            if finish == "refusal":
                blocks = [Refusal(text="no")]
        elif odd and not calls and chance.hit(0.3):
            blocks = []
        blocks += [CallSlot(ordinal=index) for index in range(len(calls))]
        return Reply(
            blocks=tuple(blocks),
            calls=tuple(calls),
            finish=finish,
            usage=Usage(input_tokens=50 + chance.below(200), output_tokens=5 + chance.below(100)),
            model=self._info.model,
            provider="sim",
            request_id=f"sim-{self._number}",
        )

    def _call(self, ordinal: int, odd: bool, more: list[str]) -> ProposedCall:
        chance = self._world.chance
        name = f"call_{self._number}_{ordinal}"
        if odd and chance.hit(0.25):
            return ProposedCall(
                ordinal=ordinal,
                tool="pay",
                malformed='{"n":',
                error="arguments must be valid JSON",
                provider_call_id=name,
            )
        if self._spawns and chance.hit(self._eager):
            return ProposedCall(ordinal=ordinal, tool="spawn", args=self._spawn(), provider_call_id=name)
        tool, args = chance.one(HOST_TOOLS), {"n": chance.below(50)}
        if more and chance.hit(0.6 if self._ways else 0.3):
            tool = chance.one(more)
            args = {"query": "word"} if tool == "recall" else args  # type: ignore[dict-item]
            args = self._ways[tool](chance) if tool in self._ways else args
            return ProposedCall(ordinal=ordinal, tool=tool, args=args, provider_call_id=name)
        if odd and chance.hit(0.2):
            tool = "nowhere"
        elif odd and chance.hit(0.2):
            args = {"n": "many"}  # type: ignore[dict-item]
        elif chance.hit(0.15):
            tool, args = self._kernel_call()
        return ProposedCall(ordinal=ordinal, tool=tool, args=args, provider_call_id=name)

    def _restless(self) -> float:
        """How often it calls something for the sake of its specialists; never in times of peace."""
        return self._eager if self._spawns and not self._world.healed.is_set() else 0.0

    def _spawn(self) -> Any:
        chance = self._world.chance
        mode = chance.one(("foreground", "foreground", "foreground", "background", "detached"))
        args = {"agent": chance.one(self._spawns), "task": "work", "mode": mode}
        if self._contexts:
            args["context"] = chance.one(self._contexts)
        return args | ({"limits": {"turns": 3}} if chance.hit(0.2) else {})

    def _kernel_call(self) -> tuple[str, Any]:
        chance = self._world.chance
        return chance.one(
            (
                ("ask_user", {"question": "Which one?", "options": ["a", "b"]}),
                ("todo", {"todos": [{"todo_id": "1", "content": "work"}]}),
                ("plan", {"summary": "s", "content": "c"}),
                ("task", {"goal": "to be done"}),
                ("complete_task", {"summary": "done"}),
                ("wait", {"for_ms": chance.one((500, 5_000, 70_000))}),
                ("wait", {"for_ms": chance.one((500, 5_000, 70_000))}),
            )
        )
