"""What a sandbox over a folder may open for one process: which paths beside the folder, and which hosts.

A path is opened as the place that it really is, so that whoever agrees sees where a link leads; it must be there, and
it must not hold the folder itself or what is kept from all. What a command merely names is opened if it can be, and
left out if not; what it asks for in so many words and cannot have is refused with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from windlass.events.user_folders import expanded
from windlass.events.values.access import Access
from windlass.events.values.blocks import Value
from windlass.tools.context import ToolError

from .proxy import Granted
from .sandbox import OPENED_MAX, Offer
from .visible_paths import DEVICES, SYSTEM, beneath, secret_places

OWN_PLACES = ("/proc", "/sys", "/dev", "/run/windlass")
"""What is the sandbox's own, whatever lies there outside."""
OWN_TO_WRITE = ("/tmp", "/var/tmp")
"""A command that names these means those of its sandbox, unless it asks for them."""


class Place(Value, frozen=True, kw_only=True):
    """The sandbox that is asked."""

    root: str
    kept: tuple[str, ...] = ()
    """What no process sees, whoever agrees."""
    gives_hosts: bool = False


def offer_of(place: Place, asked: Access, named: Access) -> Offer:
    """What is opened for a process that asks for some and names some. Looks at the disk."""
    place = msgspec.structs.replace(place, root=os.path.realpath(place.root))
    try:
        wanted = Access(
            writable=tuple(dict.fromkeys(opened_path(place, path) for path in asked.writable)),
            readable=tuple(dict.fromkeys(opened_path(place, path) for path in asked.readable)),
            hosts=_hosts(place, asked.hosts),
        )
    except ToolError as error:
        return Offer(problem=str(error))
    writable = (*wanted.writable, *_named_paths(place, named.writable, writes=True))
    readable = (*wanted.readable, *_named_paths(place, named.readable, writes=False))
    access = Access(
        writable=tuple(dict.fromkeys(writable))[:OPENED_MAX],
        readable=tuple(path for path in dict.fromkeys(readable) if path not in writable)[:OPENED_MAX],
        hosts=tuple(dict.fromkeys((*wanted.hosts, *_named_hosts(place, named.hosts))))[:OPENED_MAX],
    )
    return Offer(access=access, asked=wanted)


def opened_path(place: Place, path: str) -> str:
    """A path as it is opened. Raises `ToolError` for one that is not there, or that nobody may open."""
    whole = os.path.join(place.root, expanded(path))
    real = os.path.realpath(whole)
    if not os.path.lexists(real):
        raise ToolError(f"{path!r} is not there, so it cannot be opened: name the folder that it is to be made in")
    kept = next((each for each in (*place.kept, *secret_places()) if _overlap(real, os.path.realpath(each))), None)
    if kept is not None:
        raise ToolError(f"{path!r} cannot be opened: it holds what is kept from every command")
    if beneath(place.root, real) or real == "/":
        raise ToolError(f"{path!r} cannot be opened: the workspace lies in it; name something smaller")
    if any(beneath(real, own) for own in OWN_PLACES) and real not in {f"/dev/{name}" for name in DEVICES}:
        raise ToolError(f"{path!r} cannot be opened: a sandbox has one of its own")
    return real


def _overlap(path: str, kept: str) -> bool:
    """Whether a path holds something that is kept, or lies in it."""
    return os.path.lexists(kept) and (beneath(path, kept) or beneath(kept, path))


def _named_paths(place: Place, paths: Iterable[str], *, writes: bool) -> list[str]:
    """Those that can be opened and are not visible anyhow. What is to be made is made in the folder that is there."""
    opened_paths: list[str] = []
    for path in paths:
        whole = os.path.normpath(os.path.join(place.root, path))
        if beneath(whole, place.root) or any(beneath(whole, own) for own in OWN_TO_WRITE):
            continue
        if not writes and any(beneath(whole, base) for base in (*SYSTEM, "/etc")):
            continue
        there = whole if os.path.lexists(whole) or not writes else os.path.dirname(whole)
        try:
            opened = opened_path(place, there)
        except ToolError:
            continue
        if not beneath(opened, place.root):
            opened_paths.append(opened)
    return opened_paths


def _hosts(place: Place, hosts: tuple[str, ...]) -> tuple[str, ...]:
    if hosts and not place.gives_hosts:
        raise ToolError("this sandbox has no way to give a command some hosts and not all: it reaches nobody")
    Granted(hosts)  # raises for what is no host
    return tuple(host.lower() for host in hosts)


def _named_hosts(place: Place, hosts: Iterable[str]) -> list[str]:
    host_names: list[str] = []
    for host in hosts:
        try:
            host_names += _hosts(place, (host,))
        except ToolError:
            continue
    return host_names
