"""Where logs live: the seam, the stores behind it, and what can be asked of any of them.

`open_store` imports the store that it opens, and no other.
"""

from __future__ import annotations

import pathlib

from windlass.events.errors import UsageError
from windlass.events.user_folders import expanded

from .base import Capabilities, Durability, Key, Store
from .chain import history, verify_chain
from .memory import MemoryStore

__all__ = [
    "Capabilities",
    "Durability",
    "Key",
    "MemoryStore",
    "Store",
    "history",
    "open_store",
    "verify_chain",
]

SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
JSONL_SUFFIX = ".jsonl.d"


async def open_store(place: str | pathlib.Path, *, durability: Durability = "full", look: bool = False) -> Store:
    """Opens the store at a place, making it if need be: `:memory:`; a file `*.db` (SQLite); a directory, or a path that
    ends in `.jsonl.d` (JSON lines). `sqlite:PATH` and `jsonl:PATH` say it outright. With `look` none is made, and one
    that cannot be written, such as on read-only media, is opened for reading."""
    if durability not in ("full", "normal"):
        raise UsageError(f"durability is 'full' or 'normal', not {durability!r}")
    text = expanded(str(place))
    if text == ":memory:":
        return MemoryStore()
    scheme, _, rest = text.partition(":")
    if scheme in ("sqlite", "jsonl") and rest:
        kind, path = scheme, pathlib.Path(rest)
    else:
        path = pathlib.Path(text)
        kind = _kind_of(path)
    if kind == "sqlite":
        from windlass.store.sqlite.store import SqliteStore

        return await SqliteStore.open(path, durability=durability, look=look)
    from windlass.store.jsonl.store import JsonlStore

    return await JsonlStore.open(path, durability=durability, look=look)


def _kind_of(path: pathlib.Path) -> str:
    if path.name.endswith(JSONL_SUFFIX) or path.is_dir():
        return "jsonl"
    if path.suffix in SQLITE_SUFFIXES or path.is_file():
        return "sqlite"
    raise UsageError(
        f"cannot tell what store {str(path)!r} is: use ':memory:', a file '*.db' (SQLite) or a directory "
        f"'*{JSONL_SUFFIX}' (JSON lines)"
    )
