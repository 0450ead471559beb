"""The base of every durable event: facts come from outside, decisions follow from them.

An event is a value: no clock, no id and no sequence number is made inside it; those live in the append around it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from windlass.events.values.blocks import Nat as Nat
from windlass.events.values.blocks import Value

Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A share between 0 and 1."""

Category = Literal["syscall", "sched", "mm", "proc", "ipc"]
Role = Literal["fact", "decision"]
Auth = Literal[
    "os_user",
    "token",
    "none",
]
"""How an actor was authenticated: as the user that the operating system runs the sender as, by a token that a server
checked, or not at all: the caller only said so."""


class Erased(Value, frozen=True, kw_only=True):
    """What is left of a body that was erased: its digest keeps the chain whole, `by` and `why` say who asked."""

    digest: str
    by: str
    why: str
    at_ms: Nat


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False):
    """Base of every durable event. The tag, not the class name, is the name on disk.

    A tag is `noun.past_verb`, then `@n` where the meaning has a version above 1, then `?` where a reader that does
    not know it may skip it. A field named `body`, if there is one, holds the content: it is stored beside the rest
    so that it can be erased and the log still verifies, and a fold does not need it.
    """

    ROLE: ClassVar[Role]
    CATEGORY: ClassVar[Category] = "sched"
    ECHO: ClassVar[bool] = False
    """The body is not stored: it is found again in the fact of the same append (see `codec.echoed`)."""

    erased: Erased | None = None
    """Set on reading where the body was erased; `body` is None then."""


class Fact(Event, frozen=True, kw_only=True):
    """Something that came from outside the kernel."""

    ROLE: ClassVar[Role] = "fact"


class Command(Fact, frozen=True, kw_only=True):
    """A fact that a client asked for. Taken once by its `command_id`; ends in exactly one terminal."""

    CATEGORY: ClassVar[Category] = "ipc"
    command_id: str
    actor: str = ""
    auth: Auth | None = None
    """How it is known who gave it; None in logs that are older than it."""


class Decision(Event, frozen=True, kw_only=True):
    """Something that the kernel decided because of the fact before it in the same append."""

    ROLE: ClassVar[Role] = "decision"


def tag_of(event: Event | type[Event]) -> str:
    """The full tag as stored, version and mark included."""
    return str(event.__struct_config__.tag)


def name_of(event: Event | type[Event]) -> str:
    """The name that readers see: the tag without version and mark."""
    return plain_name(tag_of(event))


def plain_name(tag: str) -> str:
    """A tag without its version and mark."""
    return tag.removesuffix("?").partition("@")[0]


def version_of(tag: str) -> int:
    """The version that a tag carries; 1 if it says none."""
    return int(tag.removesuffix("?").partition("@")[2] or 1)


def ignorable(tag: str) -> bool:
    """Whether a reader that does not know the tag may skip the event."""
    return tag.endswith("?")
