"""What `start` sets up: the agent in the mode that is wanted, its session, and the view that tells of it.

A state that a caller gives back names the session in `agent.session`, with the cursor that it had come to. The log
counts: what was added since is known, and a state that is not of that log is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.events.errors import NotFound, UsageError
from windlass.events.values.machines import MachineSpec
from windlass.events.values.setup import SessionOptions
from windlass.kernel.state import State
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.runtime.machines.machine import Machine
from windlass.runtime.streams.cursors import CursorMismatch

from .definitions import machine_again, machine_of
from .model_names import read_level, read_model
from .turn_commands import Start
from .view.event_view import DuetView

AUTO = "auto"
MODES = ("agent", AUTO)
BEGIN_ANEW = "leave state out to begin a new session"


class Mark(msgspec.Struct, frozen=True):
    """Where a state is from."""

    id: str
    cursor: str


@dataclasses.dataclass(frozen=True)
class Seat:
    """A session that was set up: what the next turn needs."""

    agent: Agent
    session_id: str
    view: DuetView
    options: SessionOptions


def read_mark(state: Mapping[str, Any]) -> Mark:
    """Where a state is from. Raises `UsageError` for one that was not made here."""
    agent = state.get("agent")
    try:
        return msgspec.convert(agent.get("session") if isinstance(agent, dict) else None, Mark)
    except msgspec.ValidationError:
        raise UsageError(
            f"start.state.agent.session: this state was not made here: give one that a terminal told, or {BEGIN_ANEW}"
        ) from None


async def begin(runtime: Runtime, agent: Agent, command: Start, folder: str) -> Seat:
    """A new session in the mode that is wanted; without one in that of the agent, or `auto`."""
    mode = command.mode
    wanted = in_mode(agent, mode) if mode is not None else agent
    if mode is None and agent.machine is None:
        wanted = dataclasses.replace(agent, machine=AUTO)
    wanted = _thinking(wanted, command.options.thinking_level)
    options = _options(command)
    session = await runtime.session(wanted, None, workspace=folder, options=options)
    return Seat(wanted, session.session_id, DuetView(session.session_id), options)


async def resume(runtime: Runtime, agents: Mapping[str, Agent], command: Start) -> Seat:
    """The session of a state. Raises `UsageError` if it is not here, or not the one that the state is from."""
    assert command.state is not None, "there is a state to resume"
    mark = read_mark(command.state)
    try:
        session = await runtime.get(mark.id)
        async for _ in session.records(after=mark.cursor):
            break
    except NotFound:
        raise UsageError(
            f"start.state.agent.session.id: there is no session {mark.id!r} in this store: name its store with "
            f"--store, or {BEGIN_ANEW}"
        ) from None
    except CursorMismatch as error:
        raise UsageError(f"start.state.agent.session.cursor: {error}") from None
    state = await session.state()
    name = state.setup.agent.name
    if name not in agents:
        raise UsageError(f"start.state: its session is of agent {name!r}: there are {', '.join(agents)} here")
    _check_mode(command.mode, state)
    agent = as_recorded(agents[name], state)
    if command.options.thinking_level is None and state.setup.model.settings is not None:
        agent = _thinking(agent, state.setup.model.settings.thinking)
    agent = _thinking(agent, command.options.thinking_level)
    options = _options(command)
    runtime.bind(agent).with_options(options)  # what means nothing here is refused now; the next turn puts it on record
    return Seat(agent, mark.id, DuetView(mark.id), options)


def in_mode(agent: Agent, mode: str | dict[str, Any]) -> Agent:
    """An agent in a mode. Raises `UsageError` for what is none."""
    if isinstance(mode, dict):
        return _with_machine(agent, machine_of(mode))
    if mode not in MODES:
        raise UsageError(f"start.mode: {mode[:80]!r}: give {', '.join(map(repr, MODES))} or a definition")
    return dataclasses.replace(agent, machine=AUTO if mode == AUTO else None)


def as_recorded(agent: Agent, state: State) -> Agent:
    """An agent in the mode that its session was begun in."""
    if state.setup.routing == "explicit" and state.machine.given is not None:
        return _with_machine(agent, machine_again(state.machine.given))
    return in_mode(agent, state.setup.routing)


def _with_machine(agent: Agent, machine: Machine) -> Agent:
    known: MachineSpec | None = agent.machine.spec if isinstance(agent.machine, Machine) else None
    return agent if known == machine.spec else dataclasses.replace(agent, machine=machine)


def _check_mode(mode: str | dict[str, Any] | None, state: State) -> None:
    """A session stays in its mode."""
    if mode is None:
        return
    routing = state.setup.routing
    same = machine_of(mode).spec == state.machine.given if isinstance(mode, dict) else mode == routing
    if not same:
        told = "that of its definition" if routing == "explicit" else repr(routing)
        raise UsageError(f"start.mode: the session of this state is in another mode, {told}: leave mode out")


def _thinking(agent: Agent, level: str | None) -> Agent:
    if level is None or level == agent.model_settings.thinking:
        return agent
    settings = msgspec.structs.replace(agent.model_settings, thinking=read_level(level))
    return dataclasses.replace(agent, model_settings=settings)


def _options(command: Start) -> SessionOptions:
    model = command.options.model
    return SessionOptions(model=read_model(model) if model else None)


async def catch_up(view: DuetView, session: Session) -> None:
    """Has a view know what the log has, without telling anybody."""
    async for record in session.records(after=view.seq):
        view.feed(record)
