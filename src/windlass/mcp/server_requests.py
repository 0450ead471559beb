"""What a server asks of us while one of its tools runs: something of a person (elicitation), an answer of the session's
model (sampling), the folder that the session works in (roots). Nothing is granted that its configuration does not
grant, and all of it is put on record through the call that is open."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

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
SHOWN_CHARS_MAX = 20_000
"""What a person is to agree to is shown whole, or not asked."""
TOKENS_MAX = 16_384
ALLOW, DENY = "allow", "deny"
CALL: ContextVar[str] = ContextVar("windlass_mcp_call", default="")
"""The call that this task works for: a request that comes with the answer to a call is handled in the context of
whoever made the call, over streamable HTTP and in the newest protocol."""
NOBODY = "no call of this server is open that this could be asked for"
UNSAID = "It does not say for which of its calls, of which several are open."
BYTES_PER_TOKEN = 3
"""Of what a model is asked, before its own count is known: rather too few than too many, in any language."""
What = Literal["sampling", "elicitation"]


class Ruling(NamedTuple):
    """What the session's policy says of something that a server asks."""

    action: Literal["allow", "ask", "deny"]
    rule: str = ""
    reason: str = ""


Ruled = Callable[[What, dict[str, Any]], Ruling | None]
Calls = tuple[ToolContext, ...]
"""The calls that something may be asked for: the one that it is asked for, or all that are open if that is not said,
the newest first. Then it is held to what each of them may."""


class ServerRequests:
    """What one server may ask, and for which call."""

    def __init__(self, server: McpServer, folder: str | None) -> None:
        self._server = server
        self._folder = folder
        self._open: dict[str, ToolContext] = {}
        self._counts: dict[str, int] = {}
        self._tokens: dict[str, int] = {}
        self._asking: dict[tuple[str, bytes], asyncio.Future[Answered]] = {}
        self.ruled: Ruled = lambda what, args: None
        """What the session's policy says; None if it says nothing of it."""

    @contextlib.contextmanager
    def during(self, context: ToolContext) -> Iterator[None]:
        """What the server asks meanwhile is asked for this call. Over HTTP, and in the newest protocol, it is known for
        which of its calls a server asks; else, of several that are open, for all of them."""
        self._open[context.call_id] = context
        working_for = CALL.set(context.call_id)
        try:
            yield
        finally:
            CALL.reset(working_for)
            self._open.pop(context.call_id, None)
            self._counts.pop(context.call_id, None)
            self._tokens.pop(context.call_id, None)
            for name in [name for name in self._asking if name[0] == context.call_id]:
                self._asking.pop(name).cancel()

    async def _ask(self, calls: Calls, question: QuestionBody) -> Answered:
        """Asks a person, while the clock of each call that it may be asked for stands still. It is put on record with
        the newest of them; if that ends before the answer, with another one that is still open."""
        if len(calls) > 1:
            question = msgspec.structs.replace(question, message=f"{question.message}\n({UNSAID})")
        while True:
            asking = self._asked(calls[0], question)
            try:
                with _standing_still(calls[1:]):
                    return await asyncio.shield(asking)
            except (asyncio.CancelledError, ToolError) as error:
                calls = tuple(each for each in calls[1:] if each.call_id in self._open)
                if not calls or not _ended_with_its_call(asking, error):
                    raise

    def _asked(self, context: ToolContext, question: QuestionBody) -> asyncio.Future[Answered]:
        """The question outlives the connection that it came by: if the call is made once more and the server asks the
        same, the answer to the first is the answer."""
        name = (context.call_id, msgspec.json.encode(question))
        if name not in self._asking:
            self._asking[name] = asyncio.ensure_future(context.ask(question))
        return self._asking[name]

    def callbacks(self) -> dict[str, Any]:
        """What the client of the `mcp` package is given; what is missing is not offered to the server at all."""
        callbacks: dict[str, Any] = {}
        if self._server.elicitation:
            callbacks["elicitation_callback"] = self._elicit
        if self._server.sampling != "off":
            callbacks["sampling_callback"] = self._sample
        if self._server.roots and self._folder is not None:
            callbacks["list_roots_callback"] = self._roots
        return callbacks

    def _calls(self) -> Calls:
        """The calls that something is asked for. Raises `ToolError` if there is none, or one has asked too often."""
        name = CALL.get()
        named = (self._open[name],) if name in self._open else ()
        calls = named if name else tuple(reversed(self._open.values()))  # a call that is over asks for no other
        if not calls:
            raise ToolError(NOBODY, code="no_call")
        if any(self._counts.get(each.call_id, 0) >= ASKED_PER_CALL_MAX for each in calls):
            raise ToolError(f"a call may ask {ASKED_PER_CALL_MAX} times, not more", code="too_many")
        for each in calls:
            self._counts[each.call_id] = self._counts.get(each.call_id, 0) + 1
        return calls

    def _action(self, what: What, args: dict[str, Any]) -> str:
        """What the policy says of it: `allow` if it says nothing. Raises `ToolError` for what it denies."""
        ruling = self.ruled(what, args)
        if ruling is None:
            return ALLOW
        if ruling.action == DENY:
            why = f": {ruling.reason}" if ruling.reason else ""
            raise ToolError(f"the policy denies it ({ruling.rule}){why}", code="denied")
        return ruling.action

    # --- people ---

    async def _elicit(self, _: Any, params: Any) -> Any:
        import mcp_types

        try:
            asked = self._question(params)
            calls = self._calls()
            self._action("elicitation", {"mode": params.mode, "message": asked.message, "url": asked.url or ""})
            answered = await self._ask(calls, asked)
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
            calls = self._calls()
            wanted = max(1, min(int(params.max_tokens), TOKENS_MAX))
            args = {"prompt": prompt, "instructions": instructions, "max_tokens": wanted}
            asks = self._action("sampling", args) == "ask" or self._server.sampling == "ask"
            estimate = len(f"{instructions}{prompt}".encode()) // BYTES_PER_TOKEN + 1
            self._afford(calls, estimate, wanted)
            if asks and not await self._agreed(calls, prompt, instructions, wanted):
                raise ToolError("the user did not agree", code="denied")
            with self._paid_by(calls, estimate + wanted) as paid:
                answer = await calls[0].model(prompt, instructions=instructions, max_output_tokens=wanted)
                paid(answer)
        except ToolError as error:
            return refusal(error)
        return _message(answer)

    def _afford(self, calls: Calls, estimate: int, wanted: int) -> None:
        """Raises `ToolError` if a call would have more tokens than it may."""
        limit = self._server.sampling_tokens
        if any(self._tokens.get(each.call_id, 0) + estimate + wanted > limit for each in calls):
            told = f"a call may have {limit} tokens of a model in all, and this asks for up to {estimate + wanted} more"
            raise ToolError(told, code="too_many")

    @contextlib.contextmanager
    def _paid_by(self, calls: Calls, most: int) -> Iterator[Callable[[ModelAnswer], None]]:
        """Counts what a request may cost while it is under way, and then what it did cost. One that failed has cost
        what it might have: how much it was is not known."""

        def add(tokens: int) -> None:
            for each in calls:
                if each.call_id in self._open:
                    self._tokens[each.call_id] = self._tokens.get(each.call_id, 0) + tokens

        def paid(answer: ModelAnswer) -> None:
            if answer.usage is not None:
                add(answer.usage.input_tokens + answer.usage.output_tokens - most)

        self._afford(calls, 0, most)  # others may have asked while a person thought about it
        add(most)
        yield paid

    async def _agreed(self, calls: Calls, prompt: str, instructions: str, wanted: int) -> bool:
        shown = "\n\n".join(text for text in (instructions, prompt) if text)
        if len(shown) > SHOWN_CHARS_MAX:
            raise ToolError(f"a person is asked about {SHOWN_CHARS_MAX} characters at most", code="too_large")
        told = (
            f"The MCP server {self._server.name!r} wants the session's model asked this, for an answer of at most "
            f"{wanted} tokens that it is given:\n{shown}"
        )
        picks = (Option(label=ALLOW), Option(label=DENY))
        body = QuestionBody(message=told, questions=(Question(question="Ask it?", options=picks, free_text=False),))
        answered = await self._ask(calls, body)
        return answered.outcome == "answered" and answered.text == ALLOW

    # --- folders ---

    async def _roots(self, _: Any) -> Any:
        import mcp_types

        assert self._folder is not None, "offered only if there is a folder"
        path = pathlib.PurePath(self._folder)
        return mcp_types.ListRootsResult.model_validate({"roots": [{"uri": path.as_uri(), "name": path.name or "/"}]})


def _ended_with_its_call(asking: asyncio.Future[Answered], error: BaseException) -> bool:
    """Whether a question was withdrawn with the call that it was put under, and not given up by whoever asks."""
    if isinstance(error, ToolError):
        return error.code == "withdrawn"
    task = asyncio.current_task()
    return asking.cancelled() and (task is None or not task.cancelling())


@contextlib.contextmanager
def _standing_still(calls: Calls) -> Iterator[None]:
    """While this lasts, the time of these calls does not pass."""
    for each in calls:
        each.waits.begin()
    try:
        yield
    finally:
        for each in calls:
            each.waits.end()


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
