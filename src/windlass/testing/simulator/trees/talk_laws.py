"""What must hold for what sessions say to each other and read of each other, held against every append."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Event
from windlass.events.commands import CommandRefused, PromptReceived
from windlass.events.errors import NotFound
from windlass.events.sessions import SessionStarted
from windlass.events.signals import SignalReceived
from windlass.events.stored.codec import Appended
from windlass.events.tools.calls import ToolFinished, ToolRequested
from windlass.events.tools.permissions import GrantsChanged
from windlass.events.values.ids import message_id
from windlass.runtime.trees.tree_rows import root_of
from windlass.store.base import Key
from windlass.testing.invariants import Broken

if TYPE_CHECKING:
    from windlass.testing.simulator.disk_watch import Log
    from windlass.testing.simulator.world import World

SHOWN = re.compile(r"\[(\d+)\] (?:[a-z ]+: )?(\w*)")
"""How what a child reads of its parent begins: the place, whose words they are, the first of them."""


class Listener:
    """What is known of one session, by its own log alone."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {}
        """The tool of each call."""
        self.grants: dict[str, str] = {}
        """The sessions of other trees that may tell it something, by the grant."""
        self.heard: Counter[str] = Counter()
        """How often it was told what, by the id of the message."""


class TalkLaws:
    """Follows who tells whom what, and who reads whose conversation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listeners: dict[str, Listener] = {}

    def _hold(self, rule: str, holds: bool, log: Log, detail: str) -> None:
        if not holds:
            raise Broken(rule, log.state.seq, f"{log.key.session}: {detail}")

    def appended(self, log: Log, append: Appended) -> None:
        """Holds one append against the promises."""
        own = self._listeners.setdefault(log.key.session, Listener())
        for event in append.events:
            assert isinstance(event, Event)
            match event:
                case ToolRequested():
                    own.tools[event.call_id] = event.tool
                case GrantsChanged():
                    for name in event.revoked:
                        own.grants.pop(name, None)
                    own.grants.update({one.grant_id: one.session for one in event.added if one.session})
                case CommandRefused(code="not_heard"):
                    self._world.reached("heard_too_late")
                case SignalReceived():
                    self._check_heard(log, own, event)
                case ToolFinished(ok=True) if own.tools.get(event.call_id) == "tell":
                    self._check_told(log, event)
                case ToolFinished(ok=True) if own.tools.get(event.call_id) == "read_parent":
                    self._check_read(log, event)
                case _:
                    pass

    def _check_heard(self, log: Log, own: Listener, event: SignalReceived) -> None:
        """What another session says is heard once; that of another tree by a grant that is in force."""
        own.heard[event.command_id] += 1
        self._hold("a message is heard once", own.heard[event.command_id] == 1, log, event.command_id)
        sender = event.actor.removeprefix("session:")
        if sender == event.actor:
            return
        if root_of(sender) == root_of(log.key.session):
            self._world.reached("heard_within_a_tree")
            return
        granted = own.grants.get(event.grant) == sender
        self._hold("nobody of another tree is heard without a grant", granted, log, f"{sender} by {event.grant!r}")
        self._world.reached("heard_by_a_grant")

    def _check_told(self, log: Log, event: ToolFinished) -> None:
        """Who was told something has it: read, or in its inbox."""
        name = message_id(log.key.session, event.call_id)
        kept = any(self._has(key, name) for key in self._world.watch.logs)
        self._hold("what was told is kept", kept, log, name)

    def _has(self, key: Key, name: str) -> bool:
        try:
            ledger = self._world.disk.ledger(key)
        except NotFound:
            return False
        return name in ledger.taken or name in ledger.waiting

    def _check_read(self, log: Log, event: ToolFinished) -> None:
        """A child reads its parent if it was begun to, and nobody else."""
        begun = log.events[0]
        parent = begun.parent_id if isinstance(begun, SessionStarted) else None
        start = self._world.watch.trees.family(parent or "").started.get(log.key.session)
        shares = start is not None and start.context == "shared_read"
        self._hold("only who was begun to reads its parent", shares, log, event.call_id)
        text = "".join(getattr(block, "text", "") for block in event.body.content) if event.body is not None else ""
        first = SHOWN.match(text)
        above = self._world.watch.logs[Key(log.key.tenant, parent or "")]
        if first is None:
            return
        place, word = int(first[1]), first[2]
        there = above.events[place - 1] if place <= len(above.events) else None
        self._hold("what is read is the parent's", there is not None, log, f"record {place} of {parent}")
        if isinstance(there, PromptReceived) and there.body is not None:
            said = msgspec.json.encode(there.body).decode()
            self._hold("what is read is the parent's", word in said, log, f"{word!r} at record {place} of {parent}")
        self._world.reached("read_its_parent")
