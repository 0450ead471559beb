"""A connection to one server, for one session: made when it is needed, made again when it was lost, with a task of
its own that lives as long as it does. It calls nothing whose list of tools is not the one that was agreed to."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import logging
import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError
from windlass.tools.sandboxes.sandbox import ENV_ALLOWED, Launch, Process, environment

from .login.bearer import Bearer, may_log_in
from .reach import transports
from .restarts import Restarts
from .server import McpServer, filled
from .server_logs import LogLine, ServerLogs
from .server_requests import CALL, ServerRequests
from .tool_list import Listing
from .tool_pages import asked_listing

LOG = logging.getLogger("windlass.mcp")
CLOSE_S = 20.0
REASON_CHARS_MAX = 500
T = TypeVar("T")
Progressed = Callable[[float, float | None, str | None], Awaitable[None]]


Launcher = Callable[[Process], Awaitable[Launch]]
"""How a process is started inside of the session's sandbox."""


class NotConnected(Exception):
    """A server cannot be had now. Nothing was asked of it."""


class Forgotten(NotConnected):
    """A server that was there knows nothing of this connection any more: another one has to be made."""


class LoginWanted(NotConnected):
    """A server does not listen before somebody has logged in there."""


class Lost(Exception):
    """A server was lost while it worked: whether it did what it was asked is not known."""


class Frozen(Exception):
    """A server does not list what was agreed to."""


class Connection:
    """One server, whatever becomes of the process or the connection that it is reached by."""

    def __init__(
        self,
        server: McpServer,
        folder: str | None = None,
        secrets: Callable[[str], str] | None = None,
        noticed: Callable[[str], None] | None = None,
        logged: Callable[[LogLine], None] | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        self.server = server
        self.folder = folder
        self.requests = ServerRequests(server, folder)
        """What the server may ask of us, and for which call."""
        self._logs = ServerLogs(server, logged or (lambda line: None))
        self._launcher = launcher
        self._bearer = Bearer(server, CALL) if may_log_in(server) else None
        self.agreed: str | None = None
        """The digest of the list whose tools may be called; None before anybody has looked at one."""
        self.listing: Listing | None = None
        """What it listed last."""
        self.restarts = Restarts()
        self.starts = 0
        self._secrets = secrets
        self._noticed = noticed or (lambda what: None)
        """Told `changed` if it may list other tools now, `lost` if it was lost, and `back` if it is there again."""
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._ending = False
        """Whether nothing more comes from it, and why is not known yet."""
        self._stale = False
        """Whether it said that its list is another one now."""
        self._why = ""
        self._lock = asyncio.Lock()
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether it can be asked something at once."""
        return self._client is not None and not self._over.is_set() and not self._ending

    @property
    def stale(self) -> bool:
        """Whether it said that its list is another one than it gave."""
        return self._stale

    @property
    def as_agreed(self) -> bool:
        """Whether it is connected, and nothing of it is other than was agreed to."""
        return self.connected and not self._stale and self.listing is not None and self.listing.digest == self.agreed

    # --- life ---

    async def connect(self, *, patient: bool = True) -> Listing:
        """Connects, unless it is connected, and gives what the server lists. Waits as long as it must between two
        attempts, if it is patient. Raises `NotConnected`."""
        async with self._lock:
            if self.connected and self.listing is not None:
                return self.listing
            if self._closed:
                raise NotConnected("the session is let go")
            if self._ending:
                await self._over.wait()
            await self._end()
            now = self._now_ms()
            if self.restarts.open(now) or (not patient and self.restarts.wait_ms(now)):
                wait_s = self.restarts.wait_ms(now) / 1000
                told = f"it failed {self.restarts.failures} times in a row, and is tried again in {wait_s:.0f} s"
                raise NotConnected(f"{told}: {self._why}" if self._why else told)
            await asyncio.to_thread(_load)  # takes more than a second, which is no failure
            await asyncio.sleep(self.restarts.wait_ms(now) / 1000)
            try:
                return await self._begin()
            except NotConnected as error:
                self._why = str(error)
                self.restarts.failed(self._now_ms())
                raise

    async def _begin(self) -> Listing:
        loop = asyncio.get_running_loop()
        self.starts += 1
        if self._bearer is not None:
            self._bearer.why("")  # that was about an older connection
        self._over = over = asyncio.Event()
        self._ending = self._stale = False
        ready: asyncio.Future[Listing] = loop.create_future()
        ready.add_done_callback(lambda done: done.exception())  # whoever gave up waiting does not ask any more
        own = contextvars.copy_context()
        own.run(CALL.set, "")  # a connection outlives the call that it was made for, and works for none
        self._task = loop.create_task(self._live(ready, over), name=f"windlass:mcp:{self.server.name}", context=own)
        limit_s = self.server.start_timeout_ms / 1000
        try:
            await asyncio.wait([ready], timeout=limit_s)
        except BaseException:
            await self._end(begun=False)
            raise
        if not ready.done():
            await self._end(begun=False)
            raise NotConnected(f"it was not ready within {limit_s:g} s")
        if (error := ready.exception()) is not None:
            await self._end()
            self._heed_login()
            raise NotConnected(_told(error)) from error
        self.listing = ready.result()
        if self.starts > 1:
            self._noticed("back")
        return self.listing

    async def _live(self, ready: asyncio.Future[Listing], over: asyncio.Event) -> None:
        """The life of one connection. Contexts of the package must be left by the task that entered them."""
        client: Any = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._new_client(over))
                client.session.validate_tool_result = _unchecked
                await self._want_log(client)
                listing = await asked_listing(self.server.name, client)
                self._client = client
                if not ready.done():
                    ready.set_result(listing)
                listening = asyncio.get_running_loop().create_task(self._listen(client), name="windlass:mcp:listen")
                try:
                    await over.wait()
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        except (Exception, BaseExceptionGroup) as error:
            if not ready.done():
                ready.set_exception(NotConnected(self._why_of(error, over)))
            else:
                LOG.debug("the connection to MCP server %r ended: %s", self.server.name, _told(error))
        finally:
            over.set()
            if not ready.done():
                ready.set_exception(NotConnected("it was given up"))
            if self._client is client:
                self._client = None

    def _heed_login(self, call_id: str = "") -> None:
        """Raises `LoginWanted` if the server did not listen since nobody is logged in."""
        if self._bearer is not None and (why := self._bearer.why(call_id)):
            raise LoginWanted(why)

    def _why_of(self, error: BaseException, over: asyncio.Event) -> str:
        """Why it could not be connected: what it answered, if that was the reason, and not how it was ended then."""
        reason = _innermost(error)
        answered = _is_refusal(reason) or isinstance(reason, RuntimeError | ValueError)  # or a shape nobody asked for
        return self._why if over.is_set() and self._why and not answered else _told(error)

    async def _new_client(self, over: asyncio.Event) -> Any:
        from mcp_types import Implementation

        from mcp import Client

        def ended(why: str | None) -> None:
            if why is None:
                self._ending = self._over is over
                return
            self._why = why[:REASON_CHARS_MAX]
            if not over.is_set():
                over.set()
                if self._client is not None and self._over is over:
                    self.restarts.failed(self._now_ms())
                    self._noticed("lost")

        return Client(
            transports.heard(await self._transport(ended), ended),
            message_handler=self._heard,
            logging_callback=self._logs.heard,
            log_level=self.server.log_level,
            client_info=Implementation(name="windlass", version="0"),
            cache=None,
            **self.requests.callbacks(),
        )

    async def _transport(self, ended: transports.Ended) -> Any:
        server = self.server
        if server.transport == "stdio":
            given = await asyncio.to_thread(filled, server.env, self._secrets)
            return transports.over_stdio(await self._launch(given), ended)
        headers = await asyncio.to_thread(filled, server.headers, self._secrets)
        auth = self._bearer.auth() if self._bearer is not None else None
        if server.transport == "http":
            return transports.over_http(server.url, headers, ended, auth)
        if self._bearer is not None:
            self._bearer.noticed = ended  # nothing more would come of a connection that a message was refused on
        return transports.over_sse(server.url, headers, ended, auth)

    async def _launch(self, given: dict[str, str]) -> Launch:
        """How its process is started: as this one's, or inside of the session's sandbox."""
        server, argv = self.server, (self.server.command, *self.server.args)
        if not server.sandbox:
            env = environment(os.environ, ENV_ALLOWED, given)
            return Launch(argv=argv, cwd=_inside(self.folder, server.cwd), env=env)
        if self._launcher is None:
            raise NotConnected("it is to run in a session's sandbox, and there is no session here")
        return await self._launcher(Process(argv=argv, cwd=server.cwd or ".", env=given))

    async def close(self) -> None:
        """Ends the connection and, if there is one, the server's process. Safe twice."""
        self._closed = True
        async with self._lock:
            await self._end()
        if self._bearer is not None:
            await self._bearer.settled()

    async def _end(self, *, begun: bool = True) -> None:
        """Has the connection end, and waits for that. One that has not `begun` does not look whether it is over."""
        task = self._task
        self._over.set()
        if task is None:
            return
        if begun:
            await asyncio.wait([task], timeout=CLOSE_S)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_S)
        self._task = None

    # --- what it is asked ---

    async def relist(self) -> Listing:
        """What it lists now. Raises `NotConnected`."""
        listing = await self.connect()
        client, over = self._client, self._over
        if client is None:
            raise NotConnected(self._why or "it was lost")
        try:
            async with asyncio.timeout(self.server.start_timeout_ms / 1000):
                listing = await asked_listing(self.server.name, client)
        except Exception as error:
            self._heed_login(CALL.get())
            if _is_forgotten(self.server, error):
                await self._lost(over, error)
            raise NotConnected(_told(error)) from error
        self.listing, self._stale = listing, False
        return listing

    async def call(
        self, name: str, args: dict[str, Any], progressed: Progressed, meta: dict[str, Any] | None = None
    ) -> Any:
        """Calls a tool, by our name for it. Raises `NotConnected`, `Frozen`, `Lost`, or `ToolError` for what the server
        itself says is wrong."""
        listing = await self.agreed_listing()
        tool = listing.by_name.get(name)
        if tool is None:
            raise NotConnected(f"it has no tool {name!r}")
        given = {} if meta is None else {"meta": meta}
        return await self._answered(
            lambda client: client.call_tool(tool.name, args, progress_callback=progressed, **given)
        )

    async def asked(self, send: Callable[[Any], Awaitable[T]]) -> T:
        """Asks the server something that is no call of a tool. Raises the same."""
        await self.agreed_listing()
        return await self._answered(send)

    async def agreed_listing(self) -> Listing:
        """What it lists, if that is what was agreed to. Raises `Frozen` otherwise, and `NotConnected`."""
        listing = await (self.relist() if self._stale else self.connect())
        if self.agreed != listing.digest:
            raise Frozen(f"the server {self.server.name!r} does not list what was agreed to")
        return listing

    async def _answered(self, send: Callable[[Any], Awaitable[T]]) -> T:
        from mcp.shared.exceptions import MCPError

        client, over = self._client, self._over
        if client is None:
            raise NotConnected(self._why or "it was lost")
        try:
            answer = await send(client)
        except asyncio.CancelledError:
            raise
        except MCPError as error:
            self._heed_login(CALL.get())
            if _is_forgotten(self.server, error):
                await self._lost(over, Forgotten("it knows nothing of this connection any more"))
                raise Forgotten(self._why) from None
            if not over.is_set() and not self._ending and _is_an_answer(self.server, error):
                self.restarts.worked()
                raise ToolError(
                    f"the server {self.server.name!r} refused: {error.message}", code=str(error.code)
                ) from None
            raise await self._lost(over, error) from error
        except (RuntimeError, ValueError) as error:  # an answer of a shape that nobody asked for
            told = f"the server {self.server.name!r} gave an invalid result: {_told(error)}"
            raise ToolError(told, code="invalid") from None
        except Exception as error:
            raise await self._lost(over, error) from error
        self.restarts.worked()
        return answer

    async def _lost(self, over: asyncio.Event, error: BaseException) -> Lost:
        """The connection is given up; one over HTTP shows only here that it is gone."""
        if not over.is_set():
            self._why = _told(error)
            over.set()
            self.restarts.failed(self._now_ms())
            self._noticed("lost")
        return Lost(self._why or _told(error))

    # --- what it says by itself ---

    async def _heard(self, message: Any) -> None:
        import mcp_types

        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._say_changed()

    def _say_changed(self) -> None:
        self._stale = True
        self._noticed("changed")

    async def _listen(self, client: Any) -> None:
        """Servers of the newest protocol tell of changes only those who asked for it."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or client.server_capabilities.tools is None:
            return
        with contextlib.suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._say_changed()

    async def _want_log(self, client: Any) -> None:
        """Says from which level on the log of a server is wanted; those of the newest protocol are told with each
        request."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version in MODERN_PROTOCOL_VERSIONS or client.server_capabilities.logging is None:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package says that newer servers do without
            wanting = client.session.set_logging_level(self.server.log_level)
        with contextlib.suppress(Exception):  # a server that does not care logs as it likes
            await wanting

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000


def _load() -> None:
    """Loads the package. What it logs of servers goes where logs are wanted, and is not written to standard error."""
    importlib.import_module("mcp")
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


async def _unchecked(name: str, result: Any) -> None:
    """In the place of the package's check of results against the server's own schema: that would run in
    our loop, and one pattern of a stranger can take hours there that no deadline ends. Results are not believed
    anyway."""


def _inside(folder: str | None, cwd: str | None) -> str:
    """Where a server runs."""
    return os.path.normpath(os.path.join(folder or os.getcwd(), cwd or "."))


def _is_an_answer(server: McpServer, error: Any) -> bool:
    """Whether the server answered, and the answer is an error; else the connection is broken. The code alone does not
    say that: servers use it for what went wrong with them. The end of a process is noticed by itself."""
    return server.transport == "stdio" or _is_refusal(error)


def _is_refusal(error: Any) -> bool:
    """Whether this is an error that somebody answered with, not one that the package made of a broken connection."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    if not isinstance(error, MCPError):
        return False
    return error.code != CONNECTION_CLOSED or not error.message.startswith(("Connection closed", "SSE stream"))


def _is_forgotten(server: McpServer, error: Exception) -> bool:
    """Whether this is what the package makes of an answer by which a server says that it has no such session. It did
    nothing then."""
    from mcp_types import INVALID_REQUEST

    told = (getattr(error, "code", None), getattr(error, "message", None))
    return server.transport == "http" and told == (INVALID_REQUEST, "Session terminated")


def _innermost(error: BaseException) -> BaseException:
    """What went wrong. Task groups wrap what they raise."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _told(error: BaseException) -> str:
    """What went wrong, as one line."""
    error = _innermost(error)
    if isinstance(error, NotConnected | UsageError | ToolError):
        return str(error)[:REASON_CHARS_MAX]
    said = " ".join(str(error).split())
    return (f"{type(error).__name__}: {said}" if said else type(error).__name__)[:REASON_CHARS_MAX]
