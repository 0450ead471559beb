"""The circuit breaker and the fallback list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.models.wire_support import asked, endpoint_for, offline_model
from windlass.events.errors import UsageError
from windlass.events.values.blocks import Text
from windlass.events.values.failures import Failure, failure
from windlass.events.values.usage import Usage
from windlass.models.base import Delta, Model, ModelInfo, Reply, Request, TextPart
from windlass.models.fallback import FallbackModel
from windlass.models.transport.breaker import FAILURES_MAX, OPEN_MAX_MS, OPEN_MS, Breaker, breaker_for
from windlass.testing.model_server import ModelServer


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(FAILURES_MAX):
        assert breaker.blocked_ms() == 0
        breaker.failed("overloaded")
    return breaker


def test_it_opens_after_enough_failures_in_a_row() -> None:
    clock = Clock()
    breaker = opened(clock)
    assert (breaker.state, breaker.blocked_ms()) == ("open", OPEN_MS)
    clock.ms += OPEN_MS - 1
    assert breaker.blocked_ms() == 1


def test_a_success_between_starts_the_count_anew() -> None:
    breaker = Breaker(Clock())
    for _ in range(5):
        for _ in range(FAILURES_MAX - 1):
            breaker.failed("server_error")
        breaker.succeeded()
    assert breaker.state == "closed"


def test_half_open_lets_one_probe_through_and_its_outcome_decides() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.ms += OPEN_MS
    assert breaker.state == "half_open"
    assert breaker.blocked_ms() == 0
    assert breaker.blocked_ms() > 0
    breaker.failed("server_error")
    assert breaker.blocked_ms() == 2 * OPEN_MS
    clock.ms += 2 * OPEN_MS
    assert breaker.blocked_ms() == 0
    breaker.succeeded()
    assert (breaker.state, breaker.blocked_ms()) == ("closed", 0)


def test_a_cancelled_probe_lets_another_try() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.ms += OPEN_MS
    assert breaker.blocked_ms() == 0
    breaker.released()
    assert breaker.blocked_ms() == 0


def test_a_probe_that_never_tells_does_not_block_for_ever() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.ms += OPEN_MS
    assert breaker.blocked_ms() == 0
    clock.ms += OPEN_MAX_MS
    assert breaker.blocked_ms() == 0


def test_openings_grow_to_a_bound() -> None:
    clock = Clock()
    breaker = opened(clock)
    for _ in range(50):
        clock.ms += breaker.blocked_ms()
        assert breaker.blocked_ms() == 0
        breaker.failed("overloaded")
    assert breaker.blocked_ms() == OPEN_MAX_MS


@pytest.mark.parametrize("kind", ["rate_limited", "invalid_request", "auth", "context_exceeded"])
def test_an_endpoint_that_answers_is_well(kind: str) -> None:
    breaker = Breaker(Clock())
    for _ in range(FAILURES_MAX * 2):
        breaker.failed(kind)
    assert breaker.state == "closed"


def test_an_endpoint_and_a_key_share_one() -> None:
    assert breaker_for("http://a", "k") is breaker_for("http://a", "k")
    assert breaker_for("http://a", "k") is not breaker_for("http://a", "other")
    assert breaker_for("http://a", "k") is not breaker_for("http://b", "k")


async def test_an_ill_endpoint_is_left_alone_by_every_model_with_that_key() -> None:
    async with ModelServer(script=lambda request: "fine") as server:
        endpoint = endpoint_for(server, "openai")
        models = [offline_model(endpoint, credential="k-shared") for _ in range(2)]
        other = offline_model(endpoint, credential="k-not-shared")
        server.inject("503", times=FAILURES_MAX)
        for number in range(FAILURES_MAX):
            await asked(models[number % 2], Request(model="m"))
        for model in models:
            _, end = await asked(model, Request(model="m"))
            assert isinstance(end, Failure)
            assert (end.kind, end.retryable) == ("circuit_open", True)
            assert end.retry_after_ms is not None
        assert len(server.requests) == FAILURES_MAX
        _, end = await asked(other, Request(model="m"))
        assert isinstance(end, Reply)
        for model in (*models, other):
            await model.close()


class Played:
    """A model that gives what it is told to."""

    def __init__(self, name: str, *answers: Any) -> None:
        self.info = ModelInfo(name=name, provider="played", model=name)
        self.answers = answers
        self.asked = 0
        self.closed = False

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        self.asked += 1
        for answer in self.answers:
            yield answer

    async def close(self) -> None:
        self.closed = True


def reply(name: str) -> Reply:
    return Reply(blocks=(Text(text=name),), finish="stop", usage=Usage(), model=name, provider="played")


async def answers_of(model: Model, session: str = "s") -> list[Any]:
    return [answer async for answer in model.stream(Request(model="m", session=session))]


BUSY = failure("overloaded", "busy")


async def test_the_next_answers_when_the_first_cannot_and_the_session_stays_there() -> None:
    first, second = Played("a", BUSY), Played("b", [TextPart(text="hi")], reply("b"))
    model = FallbackModel([first, second])
    assert await answers_of(model) == [[TextPart(text="hi")], reply("b")]
    first.answers = (reply("a"),)
    assert await answers_of(model) == [[TextPart(text="hi")], reply("b")]
    assert (first.asked, second.asked) == (1, 2)
    assert model.chosen("s") is second
    assert await answers_of(model, "another") == [reply("a")]


async def test_after_visible_output_there_is_no_falling_back() -> None:
    second = Played("b", reply("b"))
    model = FallbackModel([Played("a", [TextPart(text="hal")], BUSY), second])
    assert await answers_of(model) == [[TextPart(text="hal")], BUSY]
    assert second.asked == 0


@pytest.mark.parametrize("kind", ["invalid_request", "context_exceeded", "content_filtered", "refused"])
async def test_what_would_fail_everywhere_does_not_fall_back(kind: Any) -> None:
    failed = failure(kind, "no")
    second = Played("b", reply("b"))
    assert await answers_of(FallbackModel([Played("a", failed), second])) == [failed]
    assert second.asked == 0


async def test_the_last_failure_is_the_one_that_is_told() -> None:
    last = failure("invalid_model", "gone")
    assert await answers_of(FallbackModel([Played("a", BUSY), Played("b", last)])) == [last]


async def test_a_fallback_list_is_a_model_and_closes_its_own() -> None:
    models = [Played("a", reply("a")), Played("b")]
    fallback = FallbackModel(models)
    assert isinstance(fallback, Model)
    assert fallback.info.name == "a"
    await fallback.close()
    assert all(model.closed for model in models)
    with pytest.raises(UsageError, match="at least one"):
        FallbackModel([])
