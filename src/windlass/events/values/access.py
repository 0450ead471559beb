"""Where a call would run: its sandbox, what that holds it to, and what somebody opened of it for this call."""

from __future__ import annotations

from .blocks import Value


class Access(Value, frozen=True, kw_only=True):
    """What one process may reach beyond what its sandbox gives to all: a person or a policy agreed to it."""

    writable: tuple[str, ...] = ()
    """Whole paths outside the root that it may write."""
    readable: tuple[str, ...] = ()
    """Whole paths outside the root that it may read, if the sandbox hides anything."""
    hosts: tuple[str, ...] = ()
    """Names that it may talk to, through the sandbox's proxy."""

    def covers(self, other: Access) -> bool:
        """Whether it opens all that another one does."""
        return all(set(getattr(other, part)) <= set(getattr(self, part)) for part in PARTS)

    @property
    def said(self) -> str:
        """What it opens, in words."""
        verbs = (("to reach", self.hosts), ("to write", self.writable), ("to read", self.readable))
        return "; ".join(f"{verb} {', '.join(names)}" for verb, names in verbs if names)

    def only(self, parts: tuple[str, ...]) -> Access:
        """These parts of it alone."""
        return Access(**{part: getattr(self, part) for part in parts})


PARTS = ("writable", "readable", "hosts")
NO_ACCESS = Access()


class SandboxTerms(Value, frozen=True, kw_only=True):
    """The sandbox that a call would run in, as an approval is bound to it."""

    name: str
    confines_files: bool = False
    """Whether nothing outside the folder can be written but what `access` names."""
    confines_network: bool = False
    """Whether nobody can be reached but whom `access` names."""
    access: Access = NO_ACCESS
    """What the call names or asks for that the sandbox does not give to all: given with a yes that speaks of it."""
    asked: Access = NO_ACCESS
    """The part of it that the call asks for in so many words: without it the call is not let pass at all."""

    @property
    def opened(self) -> Access | None:
        """What it would be given; None if that is nothing."""
        return self.access if self.access != NO_ACCESS else None

    @property
    def confines(self) -> bool:
        """Whether files and network are both held."""
        return self.confines_files and self.confines_network
