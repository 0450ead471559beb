"""For which of its calls a server asks, if several are open: over HTTP and in the newest protocol that is known, and not
guessed by time; else it is asked for all of them, and held to what each may."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from typing import Any

import pytest

from tests.mcp_client.conftest import PATIENCE_S, PATIENT_MS, Strange
from tests.mcp_client.test_connection import agreed, nothing, said
from tests.mcp_client.test_http import serving
from tests.mcp_client.test_server_requests import FORM
from windlass.events.questions import Answer, AnswerBody
from windlass.events.values.usage import Usage
from windlass.mcp.server import McpServer
from windlass.mcp.server_requests import ASKED_PER_CALL_MAX, NOBODY, UNSAID, ServerRequests
from windlass.tools.context import Answered, ModelAnswer, ToolContext, ToolError


class Desk:
    """A server whose tool asks who is calling, once it is told to."""

    def __init__(self) -> None:
        self.begun = {name: asyncio.Event() for name in ("first", "second")}
        self.may_ask = {name: asyncio.Event() for name in ("first", "second")}

    def app(self, kind: str) -> Any:
        from mcp.server import MCPServer
        from mcp.server.mcpserver import Context
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS
        from pydantic import BaseModel

        class Form(BaseModel):
            word: str

        server = MCPServer("desk")

        async def asks(name: str, ctx: Context[Any]) -> str:
            self.begun[name].set()
            await self.may_ask[name].wait()
            answer = await ctx.elicit(name, Form)
            return f"{name}: {answer.action}"

        asks.__annotations__["ctx"] = Context
        server.add_tool(asks)
        inner = server.streamable_http_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            """Of the older protocol, in which servers send requests to their clients: the newer one is not known."""
            headers = dict(scope.get("headers", ()))
            if headers.get(b"mcp-protocol-version", b"").decode() in MODERN_PROTOCOL_VERSIONS:
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await inner(scope, receive, send)

        return app


class Seat:
    """Writes down for which call something is asked, and declines."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def ask(self, call_id: str, question: Any) -> Answered:
        self.asked.append((call_id, question.message.rpartition(" ")[2]))
        return Answered(outcome="declined", body=AnswerBody())


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
async def test_two_calls_that_ask_at_once_are_told_apart(order: tuple[str, str]) -> None:
    desk, seat = Desk(), Seat()
    async with serving(desk, "http") as (url, _):  # type: ignore[arg-type]
        server = McpServer(name="desk", transport="http", url=url, start_timeout_ms=PATIENT_MS)
        connection = await agreed(server)

        async def made(name: str) -> str:
            context: Any = ToolContext(session="s", call_id=name, seat=seat)  # type: ignore[arg-type]
            with connection.requests.during(context):
                return said(await connection.call("desk__asks", {"name": name}, nothing))

        async with asyncio.timeout(PATIENCE_S):
            calls = {}
            for name in ("first", "second"):
                calls[name] = asyncio.ensure_future(made(name))
                await desk.begun[name].wait()
            for name in order:
                desk.may_ask[name].set()
                assert await calls[name] == f"{name}: decline"
        assert seat.asked == [(name, name) for name in order]
        await connection.close()


# --- over stdio ---

NEW = """
from typing import Annotated
from mcp.server import MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel
class Form(BaseModel):
    word: str
server = MCPServer('desk')
async def question(name: str) -> Elicit[Form]:
    return Elicit(name, Form)
@server.tool()
async def asks(name: str, answer: Annotated[ElicitationResult[Form], Resolve(question)]) -> str:
    return f'{name}: {answer.action}'
server.run()
"""


class TogetherSeat(Seat):
    """Answers nobody before two have asked."""

    def __init__(self) -> None:
        super().__init__()
        self.both = asyncio.Event()

    async def ask(self, call_id: str, question: Any) -> Answered:
        found = await super().ask(call_id, question)
        if len(self.asked) == 2:
            self.both.set()
        await self.both.wait()
        return found


async def test_a_server_of_the_newest_protocol_is_told_apart_over_stdio_too() -> None:
    seat = TogetherSeat()
    server = McpServer(name="desk", command=sys.executable, args=("-c", NEW), start_timeout_ms=PATIENT_MS)
    connection = await agreed(server)
    assert connection.listing is not None
    if connection.listing.protocol not in modern():
        pytest.fail(f"the official package speaks {connection.listing.protocol}: this proves nothing")

    async def made(name: str) -> str:
        context: Any = ToolContext(session="s", call_id=name, seat=seat)  # type: ignore[arg-type]
        with connection.requests.during(context):
            return said(await connection.call("desk__asks", {"name": name}, nothing))

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(made("first"), made("second"))
    assert sorted(seat.asked) == [("first", "first"), ("second", "second")]
    await connection.close()


def modern() -> Any:
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return MODERN_PROTOCOL_VERSIONS


class SlowSeat:
    """Puts questions, and answers when it is told to."""

    def __init__(self) -> None:
        self.put: list[tuple[str, str]] = []
        self.news = asyncio.Event()
        self.answers: asyncio.Queue[str] = asyncio.Queue()

    async def ask(self, call_id: str, question: Any) -> Answered:
        self.put.append((call_id, question.message))
        self.news.set()
        await self.answers.get()
        return Answered(outcome="declined", body=AnswerBody())

    async def until(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.put) < times:
                self.news.clear()
                await self.news.wait()


def unsaid(asking: Any) -> asyncio.Task[Any]:
    """What a server asks on a stream that all its calls share."""
    return asyncio.create_task(asking, context=contextvars.Context())


def context_of(name: str, seat: Any) -> Any:
    return ToolContext(session="s", call_id=name, seat=seat)


async def test_what_is_not_said_for_which_call_holds_the_clock_of_each(strange: Strange) -> None:
    strange.tell("able")
    strange.tell("elicit.json", json.dumps(FORM))
    seat = SlowSeat()
    connection = await agreed(strange.server())
    older, newer = context_of("older", seat), context_of("newer", seat)
    with connection.requests.during(older):
        hanging = asyncio.ensure_future(connection.call("strange__hangs", {}, nothing))
        await strange.noted("hangs")
        with connection.requests.during(newer):
            asking = asyncio.ensure_future(connection.call("strange__elicits", {}, nothing))
            await seat.until(1)
            assert (bool(older.waits), bool(newer.waits)) == (True, True)
            seat.answers.put_nowait("go")
            async with asyncio.timeout(PATIENCE_S):
                assert json.loads(said(await asking)) == {"action": "decline"}
            assert (bool(older.waits), bool(newer.waits)) == (False, False)
        hanging.cancel()
    assert seat.put == [("newer", f"The MCP server 'strange' asks: Who are you?\n({UNSAID})")]
    await connection.close()


async def test_a_question_outlives_the_call_that_it_may_not_belong_to(strange: Strange) -> None:
    strange.tell("able")
    seat = SlowSeat()
    requests = ServerRequests(strange.server(), None)
    with requests.during(context_of("older", seat)):
        with requests.during(context_of("newer", seat)):
            asking = unsaid(requests._elicit(None, params()))
            await seat.until(1)
        await seat.until(2)
        assert [call_id for call_id, _ in seat.put] == ["newer", "older"]
        seat.answers.put_nowait("go")
        async with asyncio.timeout(PATIENCE_S):
            assert (await asking).action == "decline"


async def test_a_question_outlives_a_call_that_a_person_cancelled(strange: Strange) -> None:
    """Its question is withdrawn on record before the call itself is over."""

    class Withdrawing(Seat):
        async def ask(self, call_id: str, question: Any) -> Answered:
            answered = await super().ask(call_id, question)
            if call_id == "newer":
                raise ToolError("the question was withdrawn", code="withdrawn")
            return answered

    seat: Any = Withdrawing()
    requests = ServerRequests(strange.server(), None)
    with requests.during(context_of("older", seat)), requests.during(context_of("newer", seat)):
        assert (await unsaid(requests._elicit(None, params()))).action == "decline"
        assert [call_id for call_id, _ in seat.asked] == ["newer", "older"]
    with requests.during(context_of("newer", seat)):
        assert (await unsaid(requests._elicit(None, params()))).message == "the question was withdrawn"


async def test_a_question_ends_with_the_last_call_that_it_may_belong_to(strange: Strange) -> None:
    seat = SlowSeat()
    requests = ServerRequests(strange.server(), None)
    with requests.during(context_of("older", seat)):
        with requests.during(context_of("newer", seat)):
            asking = unsaid(requests._elicit(None, params()))
            await seat.until(1)
        await seat.until(2)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert len(seat.put) == 2


async def test_a_call_that_is_over_asks_for_no_other(strange: Strange) -> None:
    """Its stream may be open still, over HTTP."""
    seat: Any = Seat()
    requests = ServerRequests(strange.server(), None)
    with requests.during(context_of("over", seat)):
        late = contextvars.copy_context()
    with requests.during(context_of("other", seat)):
        asking = asyncio.create_task(requests._elicit(None, params()), context=late)
        assert (await asking).message == NOBODY
    assert seat.asked == []


async def test_what_is_not_said_for_which_call_counts_for_each(strange: Strange) -> None:
    requests = ServerRequests(strange.server(), None)
    seat: Any = Seat()
    with requests.during(context_of("older", seat)):
        for _ in range(ASKED_PER_CALL_MAX - 1):
            await unsaid(requests._elicit(None, params()))
        with requests.during(context_of("newer", seat)):
            told = [await unsaid(requests._elicit(None, params())) for _ in range(2)]
        assert told[0].action == "decline"
        assert told[1].message == f"a call may ask {ASKED_PER_CALL_MAX} times, not more"


async def test_a_model_is_paid_by_each_call_that_may_have_asked(strange: Strange) -> None:
    from mcp_types import CreateMessageRequestParams, SamplingMessage, TextContent

    class ModelSeat(Seat):
        async def model(self, call_id: str, ask: Any) -> ModelAnswer:
            self.asked.append((call_id, ask.prompt))
            return ModelAnswer(text="hallo", usage=Usage(input_tokens=10, output_tokens=50))

    seat: Any = ModelSeat()
    requests = ServerRequests(strange.server(sampling="allow", sampling_tokens=160), None)
    words = SamplingMessage(role="user", content=TextContent(type="text", text="say hallo"))
    wanted = CreateMessageRequestParams(messages=[words], max_tokens=90)
    with requests.during(context_of("older", seat)):
        with requests.during(context_of("newer", seat)):
            assert (await unsaid(requests._sample(None, wanted))).content.text == "hallo"
        assert (await unsaid(requests._sample(None, wanted))).content.text == "hallo"
        refused = await unsaid(requests._sample(None, wanted))
        assert refused.message == "a call may have 160 tokens of a model in all, and this asks for up to 94 more"
    assert [call_id for call_id, _ in seat.asked] == ["newer", "older"]


async def test_what_was_asked_meanwhile_is_counted_when_a_person_has_agreed(strange: Strange) -> None:
    """Else a server could put many requests before people who agree to each, and have them all."""
    from mcp_types import CreateMessageRequestParams, SamplingMessage, TextContent

    agreed_to = asyncio.Event()

    class AgreeingSeat(Seat):
        async def ask(self, call_id: str, question: Any) -> Answered:
            self.asked.append((call_id, "person"))
            await agreed_to.wait()
            return Answered(outcome="answered", body=AnswerBody(answers=(Answer(index=0, selected=("allow",)),)))

        async def model(self, call_id: str, ask: Any) -> ModelAnswer:
            self.asked.append((call_id, "model"))
            return ModelAnswer(text="hallo", usage=Usage(input_tokens=10, output_tokens=80))

    seat: Any = AgreeingSeat()
    requests = ServerRequests(strange.server(sampling="ask", sampling_tokens=160), None)
    words = SamplingMessage(role="user", content=TextContent(type="text", text="say hallo"))
    with requests.during(context_of("one", seat)):
        asking = [
            unsaid(requests._sample(None, CreateMessageRequestParams(messages=[words], max_tokens=most)))
            for most in (90, 91)
        ]
        async with asyncio.timeout(PATIENCE_S):
            while len(seat.asked) < 2:
                await asyncio.sleep(0)
            agreed_to.set()
            answers = [await each for each in asking]
    assert answers[0].content.text == "hallo"
    assert "a call may have 160 tokens" in answers[1].message
    assert [what for _, what in seat.asked] == ["person", "person", "model"]


def params() -> Any:
    from mcp_types import ElicitRequestFormParams

    return ElicitRequestFormParams.model_validate({"message": "Who are you?", **FORM})
