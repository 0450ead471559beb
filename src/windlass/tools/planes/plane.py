"""Planes: where tools run. A tool names its plane, a runtime is opened with the planes that there are, and each session
opens its own of each when it first needs it, and closes it when the session is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from windlass.events.errors import StoreError, UsageError
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext
from windlass.tools.tool import AnyTool

from .outcome import GONE, Outcome, failed, full_text
from .task_stops import Foreign


class Plane(Protocol):
    """Runs the tools of one session. `run` gives an outcome for whatever the tool does, within the tool's time;
    cancelling it gives the tool up. `close` ends what still runs, and is safe twice."""

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome: ...

    async def close(self) -> None: ...


class PlaneKind(Protocol):
    """What a runtime is opened with: gives each session a plane of its own. Closed with the runtime, after them."""

    async def open(self, session: str) -> Plane: ...

    async def close(self) -> None: ...


@runtime_checkable
class ChecksTools(Protocol):
    """A kind of plane that cannot run every tool: `check` raises `UsageError` for one that it cannot."""

    def check(self, tool: AnyTool) -> None: ...


class Planes:
    """The kinds of planes of a runtime by name, and what its sessions have open of them."""

    def __init__(self, kinds: Mapping[str, PlaneKind]) -> None:
        self.kinds = dict(kinds)
        self._checking = {name: kind for name, kind in kinds.items() if isinstance(kind, ChecksTools)}
        self.in_use: set[SessionPlanes] = set()

    def check(self, tools: Iterable[AnyTool]) -> None:
        """Raises `UsageError` for a tool whose plane is not here, or cannot run it."""
        for tool in tools:
            if tool.options.runs != "host":
                continue
            kind = self.kinds.get(tool.options.plane)
            if kind is None:
                open_to_all = (name for name, each in self.kinds.items() if not getattr(each, "own_tools", False))
                known = ", ".join(sorted(open_to_all))
                raise UsageError(
                    f"tool {tool.name!r} runs on plane {tool.options.plane!r}: there are {known}; "
                    "name others in windlass.open(planes=...)"
                )
            checking = self._checking.get(tool.options.plane)
            if checking is not None:
                checking.check(tool)

    def for_session(self, session: str) -> SessionPlanes:
        """The planes of one session; none is opened before it is used."""
        return SessionPlanes(self, session)

    async def close(self) -> None:
        """Closes what sessions still have open, then the kinds, also after one that failed. Safe twice."""
        failure: Exception | None = None
        closable: list[SessionPlanes | PlaneKind] = [*self.in_use, *self.kinds.values()]
        for each in closable:
            try:
                await each.close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure


class SessionPlanes:
    """The planes of one session: itself a plane, which runs each tool on the one that the tool names."""

    def __init__(self, planes: Planes, session: str) -> None:
        self._planes = planes
        self._session = session
        self._open: dict[str, Plane] = {}
        self._lock = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether there is anything to close."""
        return self in self._planes.in_use

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Runs a tool on its plane, which is opened if it is not."""
        name = tool.options.plane
        try:
            plane = self._open.get(name)
            if plane is None:
                plane = await self._first(name)
                if not await context.hold():
                    return failed("tool_cancelled", GONE, GONE)
        except StoreError:
            raise
        except Exception as error:  # other people's code, which may need a machine that is not there
            told = f"the tool {tool.name!r} cannot run now: its plane cannot be opened"
            return failed("tool_unavailable", told, f"plane {name!r}: {type(error).__name__}: {error}")
        if plane is None:
            told = f"the tool {tool.name!r} cannot run here: there is no plane {name!r}"
            return failed("tool_unavailable", told, told)
        try:
            async with Foreign():
                return await plane.run(tool, call, context)
        except StoreError:
            raise  # it is not known whose session this is now
        except Exception as error:  # a plane of the user's own that breaks; what it had begun may have had effects
            told = f"the plane of tool {tool.name!r} failed ({type(error).__name__}); the tool may have had effects"
            return failed("tool_raised", told, told, code=type(error).__name__, private=full_text(error))

    async def plane(self, name: str) -> Plane | None:
        """One of its planes, which is opened if it is not; None if there is none of that name."""
        return self._open.get(name) or await self._first(name)

    async def _first(self, name: str) -> Plane | None:
        async with self._lock:
            if name not in self._open and name in self._planes.kinds:
                self._planes.in_use.add(self)
                self._open[name] = await self._planes.kinds[name].open(self._session)
            return self._open.get(name)

    async def close(self) -> None:
        """Closes what was opened, also after one that failed. Safe twice; a session that is taken up again opens them
        anew."""
        failure: Exception | None = None
        async with self._lock:
            for name, plane in tuple(self._open.items()):
                try:
                    await plane.close()
                except Exception as error:
                    failure = failure or error
                del self._open[name]  # not before: one whose closing is cancelled is closed again
            self._planes.in_use.discard(self)
        if failure is not None:
            raise failure
