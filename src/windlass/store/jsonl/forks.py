"""Forks in the directory: `session.json` names what a session continues, and a mark in that one's `forks/` names it."""

from __future__ import annotations

import msgspec

from windlass.events.errors import UsageError
from windlass.events.stored.record import Sealed
from windlass.store.base import Key, Origin

from .directory import Directory
from .line_format import frame_append
from .session import SessionView
from .small_files import About


def epoch_at(directory: Directory, tenant: str, origin: Origin) -> int:
    """The epoch of the append at which a fork begins; there must be one."""
    view = directory.view(Key(tenant, origin.session))
    while (above := view.ledger.origin) is not None and origin.seq <= above.seq:
        view = directory.view(Key(tenant, above.session))
    epoch = view.log.epoch_at(origin.seq, origin.hash)
    if epoch is None:
        raise UsageError(f"session {origin.session!r} has no append that ends at {origin.seq} with this hash")
    return epoch


def forks(directory: Directory, key: Key) -> list[str]:
    """The sessions that continue this one."""
    names = []
    for mark in (directory.view(key).path / "forks").glob("*"):
        if mark.name.endswith(".part"):
            continue
        name = mark.read_bytes().decode()
        fork = directory.lookup(Key(key.tenant, name))
        # A mark without its fork is left by a crash between the two, or by a detachment.
        if fork is not None and fork.ledger.origin is not None and fork.ledger.origin.session == key.session:
            names.append(name)
    return sorted(names)


def detach(directory: Directory, key: Key) -> None:
    """Writes the log of a fork anew, with all that it shared in front."""
    view = directory.view(key)
    if view.ledger.origin is None:
        return
    before = [frame_append(sealed, (), None) for sealed in _inherited(directory, key.tenant, view.ledger.origin)]
    view.rewrite(before, {})
    about = About(key.tenant, key.session)
    directory.disk.put(view.path / "session.json", msgspec.json.encode(about), sync=True)
    directory.files.unsynced_directories.add(view.path)
    directory.forget(key)


def _inherited(directory: Directory, tenant: str, origin: Origin) -> list[Sealed]:
    """The appends up to an origin's seq, oldest first."""
    parts: list[list[Sealed]] = []
    above: Origin | None = origin
    until = origin.seq
    while above is not None:
        until = min(until, above.seq)
        view = directory.view(Key(tenant, above.session))
        parts.append(_all_lines(view, until))
        above = view.ledger.origin
    return [sealed for part in reversed(parts) for sealed in part]


def _all_lines(view: SessionView, until: int) -> list[Sealed]:
    lines: list[Sealed] = []
    more = True
    while more:
        page, more = view.log.page(lines[-1].last_seq if lines else 0, until)
        lines.extend(page)
    return lines
