"""A session's place in this process: everything that the process knows or holds of one session, and of no other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from windlass.events.values.setup import SessionOptions
from windlass.runtime.bind.local_code import LocalCode
from windlass.runtime.streams.shared_buffer import Allowance
from windlass.runtime.streams.subscribers import Hub
from windlass.store.base import Key

if TYPE_CHECKING:
    from windlass.runtime.drive.driver import Driver, Rested
    from windlass.runtime.drive.tool_runner import ToolRunner
    from windlass.runtime.drive.tool_session import SessionSeat
    from windlass.runtime.mcp.session_servers import SessionServers
    from windlass.runtime.owner.owner import Owner
    from windlass.runtime.workspace.folder import Folder
    from windlass.runtime.workspace.session_instructions import SessionInstructions


class Driven:
    """What drives a session here: its owner, its driver, its instructions, what runs its tools and where they speak
    from, and the task that is at work on it."""

    def __init__(
        self, owner: Owner, driver: Driver, instructions: SessionInstructions, tools: ToolRunner, seat: SessionSeat
    ) -> None:
        self.mcp: SessionServers | None = None
        """Its MCP servers, if its agent has some."""
        self.owner = owner
        self.driver = driver
        self.instructions = instructions
        self.tools = tools
        self._seat = seat
        self.task: asyncio.Task[Rested] | None = None

    @property
    def at_work(self) -> bool:
        """Whether its task runs."""
        return self.task is not None and not self.task.done()

    def part(self) -> None:
        """The session was let go: its parts do not know each other in circles any more, and go at once. What
        waits for the collector was, in a process that opens many sessions, nearly half of the memory that they took."""
        self._seat.driver = None
        self.owner.on_taken = self.owner.on_committed = None
        self.driver.part()


class Slot:
    """One session's place. It exists as long as something would be lost with it; see `Slots.forget`."""

    def __init__(self, key: Key, allowance: Allowance, *, closed: bool) -> None:
        self.key = key
        self.lock = asyncio.Lock()
        """Held by whoever opens the session or lets it go."""
        self.holders = 0
        """How many have this slot in hand and rely on it: those who hold the lock or wait for it."""
        self.hub = Hub(allowance, closed=closed)
        self.local_code = LocalCode()
        self.driven: Driven | None = None
        """None while nobody drives the session, or another process does."""
        self.folder: Folder | None = None
        """The folder it works in, as somebody said in this process."""
        self.options = SessionOptions()
        """What it is to have otherwise than its agent's code says, as somebody said in this process."""
        self.wake_at_ms: int | None = None
        self.parked = ""
        """Why nothing here can resume it; empty unless it is parked."""
        self.held_up = ""
        """Why it is not resumed yet and is tried again; empty unless the store has no room."""
        self.died = ""
        """What its driver died of, until another one has taken its place and put that on record."""
        self.deaths = 0
        """How many of its drivers died in a row."""
        self.posted: str | None = None
        """The last command that was left for another process, until it is known to have been taken."""
        self.asked_for = False
        """Whether somebody asked for it by name."""

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost with it."""
        return (
            self.driven is None
            and self.holders == 0
            and not self.hub.listening
            and self.local_code.empty
            and self.folder is None
            and self.options == SessionOptions()
            and self.wake_at_ms is None
            and not self.parked
            and not self.held_up
            and self.deaths == 0
            and self.posted is None
            and not self.asked_for
        )
