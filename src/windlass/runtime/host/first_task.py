"""What a session begins with, in its first append: what its model is told first, and a child's task, which is read from
its inbox, where its parent put it. Takes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.events.base import Fact
from windlass.events.commands import PromptReceived
from windlass.events.errors import CodecError
from windlass.events.stored.codec import decode_command
from windlass.events.values.ids import child_task_id
from windlass.kernel.state import State
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.commands.admission import weighed_prompt
from windlass.runtime.workspace.folder import Place
from windlass.runtime.workspace.session_instructions import first_rendered
from windlass.store.base import Key, Store


class FirstTask(msgspec.Struct, frozen=True):
    """A child's task, and when its parent sent it."""

    command: PromptReceived
    at_ms: int


def along(bound: Bound, place: Place | None, task: FirstTask | None, state: State) -> Iterator[Fact]:
    """What a session's first append holds behind its beginning: what its model is told first, and its task, if it is a
    child. Nothing if that is not known yet: the skills are still to be found, or its policy hides files, and those with
    instructions are looked at again first."""
    if bound.agent.skills_config is not None or (place is not None and state.gate.policy.exclude):
        return
    told = first_rendered(bound, place)
    if told is not None:
        yield told
    if task is not None:
        yield weighed_prompt(task.command, state, bound)


async def first_task(store: Store, key: Key, bound: Bound) -> FirstTask | None:
    """The task of a child that is about to begin; None if there is none to begin with. One that hooks are to see, that
    may name skills, or that waits for MCP servers is taken once those are there, like any other command."""
    agent = bound.agent
    seen_first = any(hook.point == "prompt" for hook in agent.hooks)
    if seen_first or agent.skills_config is not None or agent.mcp_config is not None:
        return None
    waiting = await store.inbox.waiting(key, limit=1)
    if not waiting or waiting[0].command_id != child_task_id(key.session):
        return None
    try:
        command = decode_command(waiting[0].data)
    except CodecError:
        return None  # refused on record, once the child is driven
    return FirstTask(command, waiting[0].at_ms) if isinstance(command, PromptReceived) else None
