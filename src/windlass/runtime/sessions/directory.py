"""The directory of sessions: creates one or finds it, lists those that there are, and notes where one works."""

from __future__ import annotations

from typing import Any

from windlass.events.errors import NotFound, UsageError
from windlass.runtime.bind.session_options import NO_OPTIONS, merged
from windlass.runtime.host.first_facts import Beginning
from windlass.runtime.host.host_settings import HostSettings
from windlass.runtime.host.opener import Opener
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.workspace.folder import Folder
from windlass.store.base import IndexRow, Key, Query, Store


class Directory:
    """The sessions of a tenant in a store."""

    def __init__(self, store: Store, settings: HostSettings, slots: Slots, opener: Opener) -> None:
        self._store = store
        self._settings = settings
        self._slots = slots
        self._opener = opener

    async def open(self, key: Key, beginning: Beginning, folder: Folder | None) -> None:
        """Creates a session or finds it; one that was cut off goes on. Raises `UsageError` if it is another agent's."""
        await self._work_in(key, folder)
        self._ask_for(key)
        head = await self._store.log.head(key)
        if head is None:
            await self._store.log.create(key)
        if head is None or head.seq == 0:
            await self._opener.begin(key, beginning)
            return
        row = await self._store.index.get(key)
        agent = beginning.bound.agent.name
        if row is not None and row.agent and row.agent != agent:
            raise UsageError(f"session {key.session!r} belongs to agent {row.agent!r}, not to {agent!r}")
        if beginning.options != NO_OPTIONS:
            await self._change_options(key, beginning)
        if row is not None and row.owed and not row.losses:  # one that may end its process waits for its turn
            await self._opener.ensure_driven(key)

    async def _change_options(self, key: Key, beginning: Beginning) -> None:
        """Notes what a session is to have otherwise from now on; it is put on record when the session is opened here.
        Raises `UsageError` if it is open already and has something else."""
        driven = self._slots.driven_at(key)
        if driven is not None:
            had = driven.driver.performer.bound.options
            if merged(had, beginning.options) != had:
                raise UsageError(f"session {key.session!r} is open here: close() it first, then give it other options")
            return
        if holder := await self._opener.holder(key):
            raise UsageError(
                f"session {key.session!r} is open in {holder}: its options are changed once that lets it go"
            )
        slot = self._slots.at(key)
        slot.options = merged(slot.options, beginning.options)
        beginning.bound.with_options(slot.options)  # what means nothing here is refused now

    async def find(self, key: Key) -> None:
        """Raises `NotFound` if there is no such session. One whose beginning was cut off is none: no record says whose
        it is; whoever begins it goes on there. A child that has not begun is its parent's, whose record says so."""
        head = await self._store.log.head(key)
        if head is None or (head.seq == 0 and "~" not in key.session):
            raise NotFound(f"there is no session {key.session!r}: list them with sessions()")
        self._ask_for(key)

    async def list(self, filters: dict[str, Any]) -> list[IndexRow]:
        """What the index knows of the sessions, newest change first."""
        known = [name for name in Query.__struct_fields__ if name != "tenant"]
        unknown = sorted(set(filters) - set(known))
        if unknown:
            raise UsageError(f"sessions() knows no filter {unknown[0]!r}: there are {', '.join(known)}")
        if isinstance(filters.get("states"), str):
            raise UsageError(f"states are several: write states=({filters['states']!r},)")
        return list(await self._store.index.find(Query(tenant=self._settings.tenant, **filters)))

    def _ask_for(self, key: Key) -> None:
        """Notes what was asked for by name, if nothing else is resumed here."""
        if not self._settings.take_up:
            self._slots.at(key).asked_for = True

    async def _work_in(self, key: Key, folder: Folder | None) -> None:
        """Notes where a session works from now on; one that is driven here learns of it at once, or with its next run
        if one is going on."""
        slot = self._slots.get(key)
        if folder is None or (slot is not None and slot.folder == folder):
            return
        self._slots.place(key, folder)
        driven = self._slots.driven_at(key)
        if driven is not None:
            await driven.instructions.move(folder, files=not driven.owner.state.active)
