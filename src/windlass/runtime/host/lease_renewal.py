"""Keeps the leases of the sessions that are driven here. A session whose lease was lost is dropped: another process
has it, or will have it."""

from __future__ import annotations

from windlass.events.errors import StaleEpoch, StoreError

from .drive_tasks import DriveTasks
from .fault_report import FaultReport
from .host_settings import HostSettings
from .ports import Ports
from .slot_table import Slots


class LeaseKeeper:
    """One task that prolongs every lease three times in its term."""

    def __init__(
        self, slots: Slots, tasks: DriveTasks, ports: Ports, settings: HostSettings, faults: FaultReport
    ) -> None:
        self._slots = slots
        self._tasks = tasks
        self._ports = ports
        self._every_ms = settings.lease_ms // 3
        self._faults = faults

    async def run(self) -> None:
        """Prolongs leases until cancelled."""
        while True:
            await self._ports.sleep_ms(self._every_ms)
            await self._prolong()

    async def _prolong(self) -> None:
        for slot in self._slots.driven:
            driven = slot.driven
            if driven is None:
                continue
            try:
                await driven.owner.lease.keep()
            except StaleEpoch:
                self._tasks.drop(slot, driven)
            except StoreError:
                continue  # the next round may reach it; until then nothing new is begun without asking
            except Exception as error:  # one lease that cannot be kept must not cost the others
                what = f"the lease of session {slot.key.session!r} was not kept; it is tried again"
                self._faults.tell(what, error)
