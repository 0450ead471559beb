"""What a server asks of us while one of its tools runs: something of a person (elicitation), an answer of the session's
model (sampling), the folder that the session works in (roots). Nothing is granted that its configuration does not
grant, and all of it is put on record through the call that is open."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import msgspec

from windlass.events.questions import Option, Question, QuestionBody
from windlass.tools.context import Answered, ModelAnswer, ToolContext, ToolError

from .foreign_words import plain_schema, visible
from .server import McpServer

ASKED_PER_CALL_MAX = 20
"""How often a server may ask people or a model during one call."""
MESSAGE_CHARS_MAX = 2_000
FORM_BYTES_MAX = 16 * 1024
FIELDS_MAX = 50
URL_CHARS_MAX = 2_000
SAMPLE_CHARS_MAX = 100_000
SHOWN_CHARS_MAX = 4_000
TOKENS_MAX = 16_384
ALLOW, DENY = "allow", "deny"
CALL: ContextVar[str] = ContextVar("windlass_mcp_call", default="")
"""The call that this task works for: a request that comes with the answer to a call is handled in the context of
whoever made the call, over streamable HTTP and in the newest protocol."""
NOBODY = "no call of this server is open that this could be asked for"


class ServerRequests:
    """What one server may ask, and for which call."""

    def __init__(self, server: McpServer, folder: str | None) -> None:
        self._server = server
        self._folder = folder
        self._open: dict[str, ToolContext] = {}
        self._counts: dict[str, int] = {}
        self._asking: dict[tuple[str, bytes], asyncio.Future[Answered]] = {}

    @contextlib.contextmanager
    def during(self, context: ToolContext) -> Iterator[None]:
        """What the server asks meanwhile is asked for this call. Over HTTP it is known for which of its calls a server
        asks; over stdio it does not say: of several that are open it is the one that began last."""
        self._open[context.call_id] = context
        working_for = CALL.set(context.call_id)
        try:
            yield
        finally:
            CALL.reset(working_for)
            self._open.pop(context.call_id, None)
            self._counts.pop(context.call_id, None)
            for name in [name for name in self._asking if name[0] == context.call_id]:
                self._asking.pop(name).cancel()

    async def _ask(self, context: ToolContext, question: QuestionBody) -> Answered:
        """Asks a person. The question outlives the connection that it came by: if the call is made once more and the
        server asks the same, the answer to the first is the answer."""
        name = (context.call_id, msgspec.json.encode(question))
        if name not in self._asking:
            self._asking[name] = asyncio.ensure_future(context.ask(question))
        return await asyncio.shield(self._asking[name])

    def callbacks(self) -> dict[str, Any]:
        """What the client of the `mcp` package is given; what is missing is not offered to the server at all."""
        found: dict[str, Any] = {}
        if self._server.elicitation:
            found["elicitation_callback"] = self._elicit
        if self._server.sampling != "off":
            found["sampling_callback"] = self._sample
        if self._server.roots and self._folder is not None:
            found["list_roots_callback"] = self._roots
        return found

    def _context(self) -> ToolContext:
        """The call that something is asked for. Raises `ToolError` if there is none, or it asked too often."""
        if not self._open:
            raise ToolError(NOBODY, code="no_call")
        context = self._open.get(CALL.get()) or next(reversed(self._open.values()))
        count = self._counts[context.call_id] = self._counts.get(context.call_id, 0) + 1
        if count > ASKED_PER_CALL_MAX:
            raise ToolError(f"a call may ask {ASKED_PER_CALL_MAX} times, not more", code="too_many")
        return context

    # --- people ---

    async def _elicit(self, _: Any, params: Any) -> Any:
        import mcp_types

        try:
            asked = self._question(params)
            answered = await self._ask(self._context(), asked)
        except ToolError as error:
            return refusal(error)
        if answered.outcome != "answered":
            return mcp_types.ElicitResult(action="decline" if answered.outcome == "declined" else "cancel")
        content = answered.body.content if asked.form is not None else None
        return mcp_types.ElicitResult(action="accept", content=content)

    def _question(self, params: Any) -> QuestionBody:
        words = visible(str(params.message))[:MESSAGE_CHARS_MAX]
        message = f"The MCP server {self._server.name!r} asks: {words}"
        if params.mode == "url":
            url = visible(str(params.url))
            if not url.startswith("https://") or len(url) > URL_CHARS_MAX:
                raise ToolError(f"people are sent to addresses of https, of at most {URL_CHARS_MAX} characters")
            done = Question(question="Done there?", options=(Option(label="done"),), free_text=False)
            return QuestionBody(message=message, url=url, questions=(done,))
        form = plain_form(params.requested_schema)
        return QuestionBody(message=message, form=form)

    # --- models ---

    async def _sample(self, _: Any, params: Any) -> Any:
        try:
            prompt, instructions = sampled_text(params)
            context = self._context()
            if self._server.sampling == "ask" and not await self._agreed(context, prompt, instructions):
                raise ToolError("the user did not agree", code="denied")
            wanted = min(int(params.max_tokens), TOKENS_MAX)
            answer = await context.model(prompt, instructions=instructions, max_output_tokens=max(1, wanted))
        except ToolError as error:
            return refusal(error)
        return _message(answer)

    async def _agreed(self, context: ToolContext, prompt: str, instructions: str) -> bool:
        shown = "\n\n".join(text for text in (instructions, prompt) if text)
        cut = f"{shown[:SHOWN_CHARS_MAX]} […]" if len(shown) > SHOWN_CHARS_MAX else shown
        told = f"The MCP server {self._server.name!r} wants the session's model asked this:\n{visible(cut)}"
        picks = (Option(label=ALLOW), Option(label=DENY))
        body = QuestionBody(message=told, questions=(Question(question="Ask it?", options=picks, free_text=False),))
        answered = await self._ask(context, body)
        return answered.outcome == "answered" and answered.text == ALLOW

    # --- folders ---

    async def _roots(self, _: Any) -> Any:
        import mcp_types

        assert self._folder is not None, "offered only if there is a folder"
        path = pathlib.PurePath(self._folder)
        return mcp_types.ListRootsResult.model_validate({"roots": [{"uri": path.as_uri(), "name": path.name or "/"}]})


def refusal(error: ToolError) -> Any:
    """What a server is told that may not ask, or whose question nobody answered."""
    import mcp_types

    return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=error.message[:MESSAGE_CHARS_MAX])


def plain_form(schema: Any) -> dict[str, Any]:
    """The form that a schema describes, within bounds and with words that people can see. Raises `ToolError`."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict) or len(fields) > FIELDS_MAX:
        raise ToolError(f"a form is an object of at most {FIELDS_MAX} fields")
    if any(not isinstance(field, dict) or field.get("type") == "object" for field in fields.values()):
        raise ToolError("the fields of a form are texts, numbers, yes or no, and choices")
    if len(msgspec.json.encode(schema)) > FORM_BYTES_MAX:
        raise ToolError(f"a form is told in at most {FORM_BYTES_MAX} bytes")
    form = plain_schema(schema)
    form["type"] = "object"
    return form


def sampled_text(params: Any) -> tuple[str, str]:
    """What a model is to be asked, and its instructions. Raises `ToolError` for what is no text, or too much of it."""
    if params.tools or params.tool_choice:
        raise ToolError("a model is asked for words only, without tools")
    told: list[tuple[str, str]] = []
    for message in params.messages:
        contents = message.content if isinstance(message.content, list) else [message.content]
        for content in contents:
            if content.type != "text":
                raise ToolError(f"a model is asked in text, not in {content.type}")
            told.append((message.role, visible(content.text)))
    instructions = visible(params.system_prompt or "")
    if not told or sum(len(text) for _, text in told) + len(instructions) > SAMPLE_CHARS_MAX:
        raise ToolError(f"a model is asked something, of at most {SAMPLE_CHARS_MAX} characters")
    if len(told) == 1:
        return told[0][1], instructions
    return "\n\n".join(f"{role}: {text}" for role, text in told), instructions


def _message(answer: ModelAnswer) -> Any:
    """The answer in the form of the protocol. Which model gave it is not a server's affair."""
    import mcp_types

    content = mcp_types.TextContent(type="text", text=answer.text)
    return mcp_types.CreateMessageResult(role="assistant", content=content, model="session", stop_reason="endTurn")
