"""A route: what it is called by, who may use it, what it takes and gives. The OpenAPI document, the roles and the
attack tests are all made from the list of these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from .access.roles import Role
from .http_answer import Answer
from .http_call import Call
from .problems import ProblemForm
from .sse_connection import Frames

Handler = Callable[[Call], Awaitable[Answer | Frames]]
Method = Literal["GET", "POST", "DELETE"]


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a query or a header may say."""

    name: str
    words: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})
    place: Literal["query", "header"] = "query"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked of the server."""

    method: Method
    path: str
    name: str
    """What clients made from the document call it."""
    role: Role
    """What a token needs at the least; a command may need more."""
    words: str
    handler: Handler
    parameters: tuple[Parameter, ...] = ()
    takes: Any = None
    """The type of its JSON body, or the name of a schema; None if it takes none."""
    takes_bytes: bool = False
    gives: Any = None
    """The type of its answer, or the name of a schema."""
    media: str = "application/json"
    status: int = 200
    also: tuple[int, ...] = ()
    """Further statuses that mean that it went well."""
    fails: tuple[int, ...] = ()
    """Statuses of what may go wrong, beside those of every route."""
    while_draining: bool = True
    """Whether it is answered while the server is being stopped."""

    signed: bool = False
    """Whether it is asked with a signature, which its handler checks, and not with a token."""
    problem: ProblemForm | None = None
    """How it says what went wrong, if not as every other route does."""

    @property
    def query(self) -> tuple[str, ...]:
        """What its query may say."""
        return tuple(one.name for one in self.parameters if one.place == "query")


class Routes:
    """The routes of a server, found by path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.all = tuple(routes)

    def match(self, raw_path: bytes) -> tuple[dict[str, Route], dict[str, str]]:
        """The routes at a path by their methods, and what it names. A path is cut before it is decoded, so that a
        slash in a name stays one."""
        try:
            parts = [unquote(part.decode("ascii"), errors="strict") for part in raw_path.split(b"/")]
        except UnicodeError:
            return {}, {}
        routes: dict[str, Route] = {}
        names: Mapping[str, str] = {}
        for route in self.all:
            fits = _fits(route.path.split("/"), parts)
            if fits is not None:
                routes[route.method] = route
                names = fits
        return routes, dict(names)


def _fits(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    names: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            names[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return names
