"""The views of `windlass logs --view`: each adapter that has one brings it in a module `log_lines`, so that a folder
that is taken away takes its views along."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from windlass.protocol.view import TreeView, View

    LineViews = dict[str, Callable[[str], View[str]]]
    TreeLineViews = dict[str, Callable[[str], TreeView]]


def views() -> LineViews:
    """Every view by its name: given the name of a session, it makes lines of what is told of it."""
    line_views: LineViews = {}
    for module in _modules():
        line_views.update(module.LINES)
    return line_views


def tree_views() -> TreeLineViews:
    """The same of those that tell a session with those below it."""
    tree_line_views: TreeLineViews = {}
    for module in _modules():
        tree_line_views.update(getattr(module, "TREE_LINES", {}))
    return tree_line_views


def _modules() -> list[ModuleType]:
    import windlass.adapters

    names = [
        f"{folder.name}.log_lines"
        for folder in pkgutil.iter_modules(windlass.adapters.__path__, "windlass.adapters.")
        if folder.ispkg
    ]
    return [importlib.import_module(name) for name in names if importlib.util.find_spec(name) is not None]


def view_named(name: str, session: str) -> View[str]:
    """A view of one session. Raises `UsageError` if there is none of this name."""
    from windlass.events.errors import UsageError

    known = views()
    if name not in known:
        raise UsageError(f"--view {name!r}: there is no such view; there are {', '.join(sorted(known))}")
    return known[name](session)


def tree_view_named(name: str, session: str) -> TreeView:
    """A view of a session and those below it. Raises `UsageError` if that of this name tells one session alone."""
    from windlass.events.errors import UsageError

    known = tree_views()
    if name not in known:
        view_named(name, session)
        raise UsageError(
            f"--view {name!r} does not go with --tree: it tells one session; name the child to see it. With --tree "
            f"there are {', '.join(sorted(known))}"
        )
    return known[name](session)
