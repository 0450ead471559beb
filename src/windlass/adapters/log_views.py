"""The views of `windlass logs --view`: each adapter that has one brings it in a module `log_lines`, so that a folder
that is taken away takes its views along."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.protocol.view import View

    LineViews = dict[str, Callable[[str], View[str]]]


def views() -> LineViews:
    """Every view by its name: given the name of a session, it makes lines of what is told of it."""
    import windlass.adapters

    found: LineViews = {}
    for folder in pkgutil.iter_modules(windlass.adapters.__path__, "windlass.adapters."):
        name = f"{folder.name}.log_lines"
        if folder.ispkg and importlib.util.find_spec(name) is not None:
            found.update(importlib.import_module(name).LINES)
    return found


def view_named(name: str, session: str) -> View[str]:
    """A view of one session. Raises `UsageError` if there is none of this name."""
    from windlass.events.errors import UsageError

    known = views()
    if name not in known:
        raise UsageError(f"--view {name!r}: there is no such view; there are {', '.join(sorted(known))}")
    return known[name](session)
