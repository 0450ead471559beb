"""Sessions that are asked for: created or found, here or at a server. What none can be given is refused first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.items import HistoryItem
from windlass.events.values.label_words import checked as checked_labels
from windlass.events.values.setup import SessionOptions
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.bind.session_options import NO_OPTIONS
from windlass.runtime.host.first_facts import Beginning, checked_words
from windlass.runtime.workspace.folder import folder_of
from windlass.store.base import Key
from windlass.tools.sandboxes.choice import resolved

from .agent import Agent
from .imported_history import refs_of

if TYPE_CHECKING:
    from .runtime import Runtime


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is to have when it is created."""

    title: str = ""
    metadata: Mapping[str, str] | None = None
    history: Sequence[HistoryItem] = ()
    workspace: str | os.PathLike[str] | None = None
    trusted: bool = False
    instruction_files: Sequence[str] | None = None
    options: SessionOptions = NO_OPTIONS
    labels: Sequence[str] = ()

    @property
    def only_here(self) -> dict[str, bool]:
        """What a session of a server cannot be given from outside, and whether it is given."""
        return {
            "history": bool(self.history),
            "workspace": self.workspace is not None or self.trusted or self.instruction_files is not None,
            "options": self.options != NO_OPTIONS,
        }


async def create_or_find(runtime: Runtime, key: Key, agent: Agent | str, new: NewSession) -> None:
    """Has a session of an agent be there. Raises `UsageError` for what it cannot be given."""
    refs_of(new.history)  # one that no provider would take is refused before anything is made
    check_no_child(key)
    title, metadata = checked_words(new.title, dict(new.metadata or {}))
    if runtime.host.elsewhere is not None:
        for name, is_given in new.only_here.items():
            if is_given:
                raise UsageError(f"a session of a server takes no {name}=...: its agent is set up where it is served")
        known = agent if isinstance(agent, str) else known_elsewhere(agent, runtime.bound)
        await runtime.host.elsewhere.begin(key, known, title=title, metadata=metadata, labels=new.labels)
        return
    bound = runtime.bind(agent)
    options = new.options
    if options.sandbox is not None:
        options = msgspec.structs.replace(options, sandbox=await asyncio.to_thread(resolved, options.sandbox))
    if options.specialist is not None:
        raise UsageError("a specialist is selected by a command, which is on record: session.select(name)")
    bound.with_options(options)  # those that mean nothing here are refused, too
    beginning = Beginning(
        bound=bound,
        title=title,
        metadata=metadata,
        history=new.history,
        options=options,
        labels=checked_labels(new.labels),
    )
    folder = folder_of(new.workspace, trusted=new.trusted, names=new.instruction_files)
    await runtime.host.directory.open(key, beginning, folder)
    await runtime.host.trees.take_up(key)


def check_no_child(key: Key) -> None:
    """Raises `UsageError` for an id that only child sessions have."""
    if "~" in key.session:
        raise UsageError(f"session id {key.session!r} is not allowed: '~' is for child sessions, found by get(id)")


def known_elsewhere(agent: Any, bound: BoundAgents) -> str:
    """What an agent is called on a server. Raises `UsageError` for one of this process: its code would not be used."""
    name: object = getattr(agent, "name", None)
    known = bound.get(name) if isinstance(name, str) else None
    if known is None or known.agent is not agent:
        said = f"such as session({name!r})" if isinstance(name, str) else "session(NAME)"
        raise UsageError(
            f"a session of a server runs the agent that is served there, and none of this process: name it, {said}. "
            "For the types of its outputs, give it to connect(agents=[...])"
        )
    return str(known.agent.name)


def check_here(elsewhere: object | None, what: str) -> None:
    """Raises `UsageError` for what only the process that drives a session can begin."""
    if elsewhere is not None:
        raise UsageError(f"a {what} is not begun over a server: begin it where its agents are, and connect to look")


def named(tenant: str, session_id: str) -> Key:
    """The key of a session by its id. Raises `UsageError` for what is none."""
    if not isinstance(session_id, str):
        raise UsageError(f"the id of a session is a text, not {type(session_id).__name__}: {session_id!r}")
    return Key(tenant, session_id)
