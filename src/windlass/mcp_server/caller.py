"""Who is at the other end: a client program with a model in it, and sometimes a person before it.

What comes as the call of a tool was said by the model, whatever it says of itself; what comes as the answer to an
elicitation was said by the client, which shows it to a person. The two are recorded under different names, and only the
second may approve.
"""

from __future__ import annotations

import msgspec

from windlass.events.base import Auth
from windlass.server.access.roles import Role, allows
from windlass.server.problems import Problem


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A client: how it is called, how that is known, what it may do and whose sessions it sees."""

    name: str
    auth: Auth
    roles: tuple[Role, ...]
    tenant: str = "default"

    @property
    def person(self) -> str:
        """Who says what was asked of a person."""
        return self.name

    @property
    def model(self) -> str:
        """Who says what comes as a call. No token and no user has a slash in its name."""
        return f"{self.name}/model"

    def may(self, role: Role) -> bool:
        """Whether its roles are enough."""
        return allows(self.roles, role)

    @property
    def approves_by_call(self) -> bool:
        """Whether the call of a tool may approve: only of a client that cannot have asked for the work itself."""
        return self.may("approve") and not self.may("drive")

    def require(self, role: Role) -> None:
        """Raises `Problem` if its roles are not enough."""
        if not self.may(role):
            raise Problem(403, "role", f"this needs the role {role!r}, and {self.name!r} has not")
