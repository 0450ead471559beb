"""The tool `tell`: a session says something to another one of its tree, or to one that granted it to. It is a signal
there, which the receiver's attention disposes of; it carries the labels of whoever says it, and never cuts anything off
by itself.

tell ──▶ who is meant ──▶ the receiver's inbox, under an id that follows from the call ──▶ signal.received, once
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.signals import SignalBody, SignalReceived
from windlass.events.stored import codec
from windlass.events.stored.known_secrets import SECRETS
from windlass.events.tools.calls import ResultBody, ToolRequested
from windlass.events.values.blocks import JsonObject, Text
from windlass.events.values.ids import ID_CHARS_MAX, message_id
from windlass.kernel.parts.tools import labels
from windlass.kernel.parts.trees import child_side, listening_grants
from windlass.runtime.bind.builtin_tools import TELL
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import InboxCommand, Key
from windlass.tools.planes.outcome import Outcome, failed

from .tree_names import TreeNames, names_in

if TYPE_CHECKING:
    from windlass.runtime.owner.owner import Owner
    from windlass.store.base import Store

KIND = "message"
"""The kind of the signals that messages are."""
TEXT_CHARS_MAX = 20_000
RUN_MAX = 100
"""How many messages a model may ask for in one run."""
UNREAD_MAX = 64
"""How many commands may wait in the inbox of a session for one more message to be put there."""
Nudge = Callable[[Key, Sequence[str]], None]
DESCRIPTION = (
    "Say something to another session of the tree that you work in: your parent, the root, a sibling, or any other. "
    "`to` is `parent`, `root`, the name of its agent (numbered if there are several: `researcher-2`), or its place "
    "(`c5.0~c7.0`); or the id of a session of another tree that lets you tell it something. It is read at its next "
    "turn or later, never at once, and nothing comes back by itself. If nobody is called so, the names that there are "
    "are told."
)
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "minLength": 1, "description": "Who is meant."},
        "text": {"type": "string", "minLength": 1, "description": "What is said, complete in itself."},
        "urgency": {
            "type": "string",
            "enum": ["low", "normal", "high"],
            "description": "How soon it matters: `high` brings a turn of its own, `normal` waits for the next one.",
        },
    },
    "required": ["to", "text"],
    "additionalProperties": False,
}
TELL_TOOLS = {TELL: (DESCRIPTION, PARAMETERS)}


class Messages:
    """Carries out the tool for one session. Done again after a crash: the message's id follows from the call's, and it
    is looked for first, so that a name that means somebody else by now does not send it twice."""

    def __init__(self, owner: Owner, store: Store, nudge: Nudge) -> None:
        self._owner = owner
        self._store = store
        self._nudge = nudge
        self._log = LogReader(store)

    async def perform(self, call_id: str, args: JsonObject) -> Outcome:
        """Puts the message into the inbox of whoever is meant, or says why not."""
        try:
            told = await self._tell(call_id, args)
        except (Refused, UsageError, NotFound) as error:
            return failed("tool_arguments", str(error), "nothing was said")
        return Outcome(body=ResultBody(content=(Text(text=told),)), size=len(told))

    async def _tell(self, call_id: str, args: JsonObject) -> str:
        state, to, text = self._owner.state, str(args["to"]), str(args["text"])
        if len(text) > TEXT_CHARS_MAX:
            raise Refused("too_large", f"a message has at most {TEXT_CHARS_MAX} characters, and this has {len(text)}")
        await self._check_number(call_id)
        names = await names_in(self._store, Key(self._owner.key.tenant, state.root_id or state.session_id))
        name = message_id(state.session_id, call_id)
        for session in names.meant(to, state.session_id, state.parent_id):
            if await self._is_sent(session, name):
                return f"told {names.shown(session)}"
        try:
            session, grant = names.one(to, state.session_id, state.parent_id), ""
        except Refused as nobody:
            if await self._is_outside(to) and await self._is_sent(to, name):
                return f"told {to}"
            session, grant = to, await self._grant_of(to, nobody)
        await self._check_hears(session, names.shown(session), names)
        await self._post(session, self._message(name, names, text, args, grant))
        return f"told {names.shown(session) if not grant else session}"

    async def _is_outside(self, to: str) -> bool:
        """Whether there is a session of another tree with this id."""
        return len(to) <= ID_CHARS_MAX and await self._log.head(self._key(to)) is not None

    async def _grant_of(self, to: str, nobody: Refused) -> str:
        """The grant by which a session of another tree hears this one. Raises `nobody` otherwise, with the same words
        whether or not there is such a session."""
        if await self._is_outside(to):
            there = (await self._log.fold(self._key(to))).state
            there.now_ms = max(there.now_ms, self._owner.ports.now_ms())
            grant = listening_grants.heard(there, self._owner.state.session_id)
            if grant is not None:
                return grant.grant_id
        raise Refused(nobody.code, f"{nobody}. No session of another tree called so lets this one tell it anything")

    def _message(self, name: str, names: TreeNames, text: str, args: JsonObject, grant: str) -> SignalReceived:
        state = self._owner.state
        urgency: Any = args.get("urgency", "normal")
        return SignalReceived(
            command_id=name,
            actor=f"session:{state.session_id}",
            auth="none",
            kind=KIND,
            source=names.shown(state.session_id) if not grant else state.session_id,
            urgency=urgency,
            labels=labels.told(state),
            grant=grant,
            body=SignalBody(text=text),
        )

    async def _post(self, session: str, message: SignalReceived) -> None:
        data = SECRETS.hidden(codec.encode_command(message))
        posted = InboxCommand(command_id=message.command_id, at_ms=self._owner.ports.now_ms(), data=data)
        key = self._key(session)
        await self._store.inbox.send(key, posted)
        self._owner.ports.point("message_posted")
        self._nudge(self._owner.key, (session,))

    async def _is_sent(self, session: str, name: str) -> bool:
        """Whether a session has the message, read or not. An owner that died may have put it there."""
        key = self._key(session)
        if await self._log.taken_at(key, name) is not None:
            return True
        return any(one.command_id == name for one in await self._store.inbox.waiting(key, limit=UNREAD_MAX + 1))

    async def _check_hears(self, session: str, shown: str, names: TreeNames) -> None:
        """Raises `Refused` if a session reads nothing any more, or has too much to read."""
        key = self._key(session)
        there = (await self._log.fold(key)).state
        if child_side.has_ended(there):
            raise Refused("ended", f"{shown} has ended. {names.told(self._owner.key.session)}")
        if child_side.owes_end(there):
            raise Refused("not_begun", f"{shown} has not begun its work: say it later")
        if there.flow.graph is not None:
            raise Refused("not_heard", f"{shown} carries out a workflow, and is told nothing")
        if len(await self._store.inbox.waiting(key, limit=UNREAD_MAX)) >= UNREAD_MAX:
            raise Refused("full", f"{shown} has {UNREAD_MAX} messages that it has not read: say it later")

    async def _check_number(self, call_id: str) -> None:
        """Raises `Refused` for a call of the model behind the first so many of its run."""
        state, number = self._owner.state, 0
        run = int(state.run.run_id[1:] or 0)
        async for record in self._log.records(self._owner.key, after=run, bodies=False):
            event = record.event
            if not isinstance(event, ToolRequested) or event.tool != TELL or event.by_person:
                continue
            number += 1
            if event.call_id == call_id:
                break
        if number > RUN_MAX:
            raise Refused("too_many", f"this run has sent {RUN_MAX} messages, and may send no more")

    def _key(self, session: str) -> Key:
        return Key(self._owner.key.tenant, session)
