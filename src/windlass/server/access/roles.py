"""What the holder of a token may do. A driver cannot approve what its own session asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from windlass.events.base import Command
from windlass.events.changes import ChangeAgent, ChangeGrants, ChangeMode, ChangeReceived, ChangeSettings
from windlass.events.commands import PromptReceived
from windlass.events.questions import AnswerReceived
from windlass.events.sessions import HandoffReceived
from windlass.events.tools.calls import ToolSettled
from windlass.events.tools.labels import LabelsDeclassified
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied
from windlass.events.tools.toolset import UnmountReceived
from windlass.events.trees.machines import MachineReceived
from windlass.events.values.tools import ToolSpec

Role = Literal["read", "drive", "approve", "admin"]
"""`read`: look at sessions. `drive`: begin them and talk to them. `approve`: answer what they ask of people, and widen
what they may do. `admin`: everything, erasing and removing included."""

ROLES: tuple[Role, ...] = get_args(Role)

ANSWERS = (PermissionApproved, PermissionDenied, AnswerReceived, ToolSettled, LabelsDeclassified)


def allows(roles: Collection[str], needed: Role) -> bool:
    """Whether some roles are enough. Whoever may do anything may read."""
    return "admin" in roles or needed in roles or (needed == "read" and bool(roles))


def role_in(command: Command, toolset: Mapping[str, ToolSpec]) -> Role:
    """The role that a command needs in a session with these tools: whoever drives it may take away tools that clients
    brought, and no others. What its author gave it, or a server that was trusted, may be what keeps it in bounds."""
    if isinstance(command, UnmountReceived):
        spec = [toolset.get(name) for name in command.tools]
        return "drive" if all(one is None or one.runs == "client" for one in spec) else "approve"
    return role_for(command)


def role_for(command: Command) -> Role:
    """The role that a command needs: what answers a request to people, or widens what a session may do or spend, is
    for those who approve."""
    match command:
        case ChangeReceived(change=ChangeGrants() | ChangeMode() | ChangeSettings() | ChangeAgent()):
            return "approve"
        case HandoffReceived():
            return "admin"
        case MachineReceived(state=name) if name:
            return "approve"  # it may be past a state in which a person decides
        case PromptReceived(options=options) if options is not None and options.limits is not None:
            return "approve"
        case _:
            return "approve" if isinstance(command, ANSWERS) else "drive"
