"""The prompts of a server: what people may ask for by name (`/server:prompt`), with arguments, and what a server
makes of it. Its words become a prompt that is marked as a stranger's."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Image, InputBlock, Text, Value
from windlass.tools.context import ToolError

from .foreign_words import visible
from .results import block_of

if TYPE_CHECKING:
    from .connection import Connection

PAGES_MAX = 20
PROMPTS_MAX = 500
WORDS_CHARS_MAX = 300
MESSAGES_MAX = 100
TEXT_CHARS_MAX = 200_000


class PromptArgument(Value, frozen=True, kw_only=True):
    """What a prompt may be given."""

    name: str
    description: str = ""
    required: bool = False


class ServerPrompt(Value, frozen=True, kw_only=True):
    """A prompt as its server tells of it."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def command(self) -> str:
        """What people write for it, without the slash."""
        return f"{self.server}:{self.name}"

    def filled(self, words: str) -> dict[str, str]:
        """Arguments out of what somebody wrote: `name=value`, or values in order, of which the last takes what is left.
        Raises `UsageError` with what is missing."""
        try:
            given = shlex.split(words)
        except ValueError as error:
            raise UsageError(f"/{self.command}: {error}") from None
        names = [argument.name for argument in self.arguments]
        values: dict[str, str] = {}
        rest: list[str] = []
        for word in given:
            name, sign, value = word.partition("=")
            if sign and name in names:
                values[name] = value
            else:
                rest.append(word)
        open_names = [name for name in names if name not in values]
        if rest and not open_names:
            raise UsageError(f"/{self.command} takes {', '.join(names) or 'nothing'}: {rest[0]!r} is too much")
        for name, value in zip(open_names, rest, strict=False):
            values[name] = value
        if len(rest) > len(open_names):
            values[open_names[-1]] = " ".join(rest[len(open_names) - 1 :])
        return self.checked(values)

    def checked(self, given: Mapping[str, str]) -> dict[str, str]:
        """The arguments, if they are such as it takes. Raises `UsageError`."""
        names = {argument.name for argument in self.arguments}
        if strange := sorted(set(given) - names):
            raise UsageError(f"/{self.command} takes {', '.join(sorted(names)) or 'nothing'}, not {strange[0]!r}")
        missing = [argument.name for argument in self.arguments if argument.required and not given.get(argument.name)]
        if missing:
            raise UsageError(f"/{self.command} needs {', '.join(missing)}: write /{self.command} {missing[0]}=…")
        return {name: str(value) for name, value in given.items()}


async def listed_prompts(connection: Connection) -> list[ServerPrompt]:
    """What a server lists, within bounds. Raises as `Connection.asked` does."""
    if connection.listing is None or not connection.listing.prompts:
        return []
    prompts: list[ServerPrompt] = []
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = await _timely(connection, _page(cursor))
        prompts += [_prompt(connection.server.name, each) for each in page.prompts]
        cursor = page.next_cursor
        if not cursor or len(prompts) >= PROMPTS_MAX:
            break
    return prompts[:PROMPTS_MAX]


async def _timely(connection: Connection, send: Callable[[Any], Awaitable[Any]]) -> Any:
    """What a server answers, within the time of a call. Raises `ToolError` if it does not."""
    limit_s = connection.server.call_timeout_ms / 1000
    try:
        async with asyncio.timeout(limit_s):
            return await connection.asked(send)
    except TimeoutError:
        raise ToolError(f"the server {connection.server.name!r} did not answer within {limit_s:g} s") from None


def _page(cursor: str | None) -> Any:
    return lambda client: client.list_prompts(cursor=cursor)


def _prompt(server: str, told: Any) -> ServerPrompt:
    given = tuple(
        PromptArgument(name=each.name, description=_words(each.description or ""), required=bool(each.required))
        for each in told.arguments or ()
    )
    return ServerPrompt(server=server, name=told.name, description=_words(told.description or ""), arguments=given)


def _words(text: str) -> str:
    return visible(text)[:WORDS_CHARS_MAX]


async def made(connection: Connection, prompt: ServerPrompt, args: Mapping[str, str]) -> tuple[InputBlock, ...]:
    """What a server makes of a prompt: blocks to be sent, which begin with whose words they are."""
    answer = await _timely(connection, lambda client: client.get_prompt(prompt.name, dict(args)))
    told: dict[str, Any] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    head = f"(The prompt {prompt.name!r} of the MCP server {prompt.server!r}, as the user asked for it.)"
    return (Text(text=head), *_blocks(told.get("messages") or ()))


def _blocks(messages: Sequence[Any]) -> list[InputBlock]:
    blocks: list[InputBlock] = []
    size = 0
    for message in messages[:MESSAGES_MAX]:
        block = block_of(message["content"])
        if isinstance(block, Image):
            blocks.append(block)
            continue
        text = getattr(block, "text", None) or str(getattr(block, "uri", None) or "(something that is no text)")
        words = visible(text)[: max(0, TEXT_CHARS_MAX - size)]
        size += len(words)
        blocks.append(Text(text=words if message.get("role") == "user" else f"[{message.get('role')}] {words}"))
    return blocks
