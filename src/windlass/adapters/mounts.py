"""What adapters add to the server (`windlass serve --with`): each that has routes has them in a module `mount`, so that
a folder that is taken away takes its routes along."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.server.mount import Mount


def mount_names() -> list[str]:
    """The adapters that have routes, by name. Loads none of them."""
    import windlass.adapters

    folders = (module.name for module in pkgutil.iter_modules(windlass.adapters.__path__) if module.ispkg)
    return [name for name in folders if importlib.util.find_spec(f"windlass.adapters.{name}.mount") is not None]


def mounts_named(names: Iterable[str]) -> list[Mount]:
    """The mounts of adapters, each once. Raises `UsageError` for one that is not there."""
    from windlass.events.errors import UsageError

    there, wanted = mount_names(), dict.fromkeys(names)
    for name in wanted:
        if name not in there:
            raise UsageError(f"--with {name}: there are {', '.join(there) or 'none'}")
    return [importlib.import_module(f"windlass.adapters.{name}.mount").MOUNT for name in wanted]
