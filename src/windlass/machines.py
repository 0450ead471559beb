"""State machines: the functions that make their states, machines out of files, and the machine of a session."""

from windlass.events.trees.machines import (
    MachineCreated,
    MachineEnded,
    MachineInterrupted,
    MachineLeft,
    MachineMoved,
    MachineSlept,
)
from windlass.runtime.machines.diagrams import mermaid, svg
from windlass.runtime.machines.drafts import agent, cancelled, completed, failed, park, poll, script, timer
from windlass.runtime.machines.machine import BadMachine, Machine
from windlass.runtime.machines.machine_files import load_machine
from windlass.runtime.machines.machine_view import MachineView, Step
from windlass.runtime.machines.session_machine import SessionMachine

__all__ = [
    "BadMachine",
    "Machine",
    "MachineCreated",
    "MachineEnded",
    "MachineInterrupted",
    "MachineLeft",
    "MachineMoved",
    "MachineSlept",
    "MachineView",
    "SessionMachine",
    "Step",
    "agent",
    "cancelled",
    "completed",
    "failed",
    "load_machine",
    "mermaid",
    "park",
    "poll",
    "script",
    "svg",
    "timer",
]
