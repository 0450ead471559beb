"""An MCP server as somebody configured it: how it is reached, what of it is taken, and what is believed of it.

It is a value. Secrets stand in it by name only (`${name}`), and are looked up when it is connected.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from windlass.events.errors import UsageError
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.blocks import Value
from windlass.events.values.policy import Trait
from windlass.events.values.tools import Contract

Transport = Literal["stdio", "http", "sse"]
"""Its own process; streamable HTTP; or the older HTTP with server-sent events."""
Trust = Literal["first_sight", "record", "source"]
"""What a server needs: nothing the first time, and from then on to be what it was; a record that a person trusts it; or
nothing ever, since it is as good as the code that names it."""

Sampling = Literal["off", "ask", "allow"]
"""Whether a server may have the session's model asked: never, if a person agrees each time, or as it likes."""
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""What a server's log lines must at least be."""

NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]|_(?!_)){0,30}(?<!_)\Z")
SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.-]{0,63})(?::-([^}]*))?\}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
PRIVATE = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
"""Names whose values are taken for secrets even if they are written out."""
PRIVATE_CHARS_MIN = 8
LOOPBACK = ("localhost", "127.0.0.1", "::1")
START_TIMEOUT_MS = 60_000
CALL_TIMEOUT_MS = 120_000
SAMPLING_TOKENS = 50_000
WORDS_MAX = 256
CHARS_MAX = 8_192
FIRST_SIGHT = "first_sight"
CODE = "code"
"""Where a server comes from that no file names."""


class McpServer(Value, frozen=True, kw_only=True):
    """One server. `${name}` in `env` and `headers` stands for a secret of the runtime, `${name:-text}` for one that
    may be missing; nothing is ever taken from the environment of this process."""

    name: str
    """What its tools are named by: letters, digits, `-` and single `_`, at most 31."""
    transport: Transport = "stdio"
    """How it is reached. Of a server that is named by its `url` alone it is `http`, unless it says `sse`."""
    command: str = ""
    """The program, for `stdio`. No shell reads it."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """In addition to a few harmless variables of this process (PATH, HOME, the locale)."""
    cwd: str | None = None
    """Where it runs; the session's workspace if it has one, else the current directory."""
    url: str = ""
    """Where it is, for `http` and `sse`."""
    headers: dict[str, str] = {}
    tools: tuple[str, ...] = ("*",)
    """Globs of the tools that are taken, by the names that the server gives them."""
    exclude: tuple[str, ...] = ()
    """Globs of the tools that are not."""
    read_only: tuple[str, ...] = ()
    """Globs of the tools that only read, on your word. What the server says of that is shown to people, and not
    believed."""
    contracts: dict[str, Contract] = {}
    """What may be done again after a crash, by globs of tools: `at_most_once` unless said otherwise."""
    deferred: bool | None = None
    """Whether its tools are found by searching only; None leaves that to how many there are."""
    trust: Trust = "first_sight"
    roots: bool = False
    """Whether it is told which folder the session works in."""
    elicitation: bool = True
    """Whether it may ask people something while one of its tools runs."""
    sampling: Sampling = "off"
    sampling_tokens: int = SAMPLING_TOKENS
    """How many tokens of a model, asked and answered, one call may have in all."""
    log_level: LogLevel = "warning"
    """What of its log is put on record as notices: lines of this level and above."""
    sandbox: bool = False
    """Whether its process runs in the session's sandbox, with what that lets it see and reach; `stdio` only."""
    start_timeout_ms: int = START_TIMEOUT_MS
    call_timeout_ms: int = CALL_TIMEOUT_MS
    enabled: bool = True
    origin: str = CODE
    """Where it is named: a file, or code. Trust is kept for each."""

    def __post_init__(self) -> None:
        if self.url and not self.command and self.transport == "stdio":
            msgspec.structs.force_setattr(self, "transport", "http")

    @property
    def launch(self) -> dict[str, object]:
        """All that decides what is run or reached, without the values of secrets."""
        if self.transport == "stdio":
            told: dict[str, object] = {
                "command": self.command,
                "args": list(self.args),
                "cwd": self.cwd,
                "env": masked(self.env),
            }
            told |= {"sandbox": True} if self.sandbox else {}
        else:
            told = {"url": self.url, "headers": masked(self.headers)}
        return {"transport": self.transport, **told}

    @property
    def launch_digest(self) -> str:
        """What the way to this server is known by."""
        return hashlib.blake2b(msgspec.json.encode(self.launch, order="deterministic"), digest_size=16).hexdigest()

    def takes(self, tool: str) -> bool:
        """Whether a tool of it is taken."""
        return any(fnmatchcase(tool, glob) for glob in self.tools) and not _fits(tool, self.exclude)

    def contract(self, tool: str) -> Contract:
        """What may be done again of a tool."""
        for glob, contract in self.contracts.items():
            if fnmatchcase(tool, glob):
                return contract
        return "pure" if _fits(tool, self.read_only) else "at_most_once"

    def traits(self, tool: str) -> tuple[Trait, ...]:
        """What a tool may do: anything, unless whoever configured it says that it only reads."""
        away: tuple[Trait, ...] = () if self.transport == "stdio" else ("egress",)
        return ("read", *away) if _fits(tool, self.read_only) else ("read", "write", "execute", "egress")


def _fits(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


# --- secrets ---


def masked(values: Mapping[str, str]) -> dict[str, str]:
    """Values as they may be shown and compared: handles as they are, what looks like a secret by its digest alone."""
    return {name: _masked(name, value) for name, value in sorted(values.items())}


def _masked(name: str, value: str) -> str:
    if SECRET.search(value) or not PRIVATE.search(name):
        return value
    return f"(hidden, {hashlib.blake2b(value.encode(), digest_size=4).hexdigest()})"


def filled(values: Mapping[str, str], secrets: Callable[[str], str] | None) -> dict[str, str]:
    """Values with their secrets, for the one moment when they are used. Raises `ToolError` for a secret that is not
    there."""
    return {name: _filled(name, value, secrets) for name, value in values.items()}


def _filled(name: str, value: str, secrets: Callable[[str], str] | None) -> str:
    from windlass.tools.context import ToolError

    def looked_up(placeholder: re.Match[str]) -> str:
        try:
            if secrets is None:
                raise ToolError(f"there is no secret {placeholder[1]!r} here: open the runtime with secrets={{...}}")
            return secrets(placeholder[1])
        except ToolError:
            if placeholder[2] is None:
                raise
            return placeholder[2]

    whole = SECRET.sub(looked_up, value)
    if len(whole) >= PRIVATE_CHARS_MIN and PRIVATE.search(name):
        SECRETS.add(whole)
    return whole


# --- checks ---


def checked(server: McpServer, place: str) -> McpServer:
    """The server, if it can be what it says. Raises `UsageError` that names the place and the fix."""
    for problem in _problems(server):
        raise UsageError(f"{place}: {problem}")
    return server


def _problems(server: McpServer) -> Iterator[str]:
    if not NAME.match(server.name):
        yield (
            f"{server.name!r} is no name of a server: begin with a letter, then letters, digits, '-' and single '_', "
            "at most 31 in all"
        )
    yield from _launch_problems(server)
    for what, values, form in (("env", server.env, VARIABLE), ("headers", server.headers, HEADER)):
        for name, value in values.items():
            if not form.match(name):
                yield f"{what}: {name!r} is no name: use letters, digits and '_'"
            if any(sign in value for sign in "\0\r\n") or len(value) > CHARS_MAX:
                yield f"{what}.{name}: a value is one line of at most {CHARS_MAX} characters"
            if "${" in SECRET.sub("", value):
                yield f"{what}.{name}: write a secret as ${{name}} or ${{name:-text}}, and name it in open(secrets=...)"
    if server.start_timeout_ms <= 0 or server.call_timeout_ms <= 0:
        yield "the timeouts are milliseconds, greater than 0"
    if server.sampling_tokens <= 0:
        yield "sampling_tokens is a number greater than 0: sampling='off' turns it off"


def _launch_problems(server: McpServer) -> Iterator[str]:
    if server.transport == "stdio":
        if not server.command:
            yield "cannot tell how to reach it: give 'command' for a program, or 'url' for an address"
        if server.url or server.headers:
            yield "a server with a 'command' has no 'url' and no 'headers': take one of them out"
        words = (server.command, *server.args, server.cwd or "")
        if len(words) > WORDS_MAX or any("\0" in word or len(word) > CHARS_MAX for word in words):
            yield f"the command has more than {WORDS_MAX} words, a NUL, or a word of more than {CHARS_MAX} characters"
        if any(SECRET.search(word) for word in words):
            yield "secrets are not put into a command, which every user of the machine can see: put them in 'env'"
        return
    if server.sandbox:
        yield "only a server with a 'command' has a process that could run in a sandbox: leave out 'sandbox'"
    if server.command or server.args or server.env:
        yield "a server with a 'url' has no 'command', 'args' or 'env': take one of them out"
    yield from _url_problems(server)


def _url_problems(server: McpServer) -> Iterator[str]:
    if not server.url:
        yield f"transport {server.transport!r} needs a 'url'"
        return
    if SECRET.search(server.url):
        yield "secrets are not put into an address, which is written down in many places: put them in 'headers'"
        return
    try:
        parts = urlsplit(server.url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        yield f"{server.url!r} is no address: {error}"
        return
    if parts.scheme not in ("http", "https") or not host or parts.username is not None or parts.password is not None:
        yield f"{server.url!r}: give an address such as https://example.com/mcp, without a name or a password in it"
    elif parts.scheme == "http" and host not in LOOPBACK and (server.headers):
        yield f"{server.url!r}: headers would be readable on the way: use https"
