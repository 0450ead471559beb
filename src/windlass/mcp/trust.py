"""What people trust of MCP servers: for each, how it is reached and the whole list of its tools as somebody saw them,
so that a changed one can be shown as a diff. Kept in the user's own state folder, beside what was seen last."""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from windlass.events import known_types, user_folders
from windlass.events.values.blocks import Value

from .server import CODE, McpServer
from .tool_list import ListedTool, Listing

RECORD_BYTES_MAX = 64 * 1024 * 1024
DIFF_LINES_MAX = 400
WINDLASS = "windlass"
UNSHOWN = "its list differs in what no line shows: the ends of lines, or tools that are left out"
UNASKED = "first sight"
"""Who trusted a server that no person was asked about."""

Standing = Literal["trusted", "new", "changed"]


class Sight(Value, frozen=True, kw_only=True):
    """A server as it was seen: how it is reached, and what it lists."""

    launch: dict[str, Any]
    launch_digest: str
    listing_digest: str = ""
    """Empty if it was not asked: a server that is reached otherwise than before is not run to find out."""
    about: str = ""
    tools: tuple[ListedTool, ...] = ()


class Record(Value, frozen=True, kw_only=True):
    """What is known of one server: what somebody trusted, and what was there instead the last time."""

    key: str
    name: str
    origin: str
    trusted: Sight | None = None
    by: str = ""
    seen: Sight | None = None
    """What differs from what is trusted; None if nothing does."""
    asks_first: bool = False
    """Whether what is trusted was a first sight only, where a person's word is wanted: then that person is shown all of
    it, not what changed."""

    @property
    def before(self) -> Sight | None:
        """What whoever is asked now is shown the difference to."""
        return None if self.asks_first else self.trusted

    def trusted_for(self, server: McpServer) -> Sight | None:
        """What is trusted of a server as it is configured now."""
        return None if wants_person(server, self) else self.trusted


def wants_person(server: McpServer, record: Record) -> bool:
    """Whether a server needs the word of a person that its record does not have."""
    return server.trust == "record" and record.by == UNASKED


def state_folder() -> str:
    """The folder beneath which records are kept."""
    return os.path.join(user_folders.state_folder(), WINDLASS, "mcp")


def key_of(server: McpServer, agent: str) -> str:
    """What trust in a server is kept under: its name within the file, or the agent, that names it."""
    return f"{server.name} of {f'agent {agent}' if server.origin == CODE else server.origin}"


def sight_of(server: McpServer, listing: Listing | None = None) -> Sight:
    """A server as it is now."""
    seen = Sight(launch=server.launch, launch_digest=server.launch_digest)
    if listing is None:
        return seen
    return msgspec.structs.replace(seen, listing_digest=listing.digest, about=listing.about, tools=listing.tools)


class TrustRecords:
    """The records of one user."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or state_folder()

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, "trust", f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.json")

    def of(self, key: str) -> Record | None:
        """The record of a server; None if there is none. Raises `OSError` for one that is there and cannot be read:
        whoever took that for none would trust at first sight what may have changed since."""
        record = _read(self._path(key))
        return record if record is not None and record.key == key else None

    def all(self) -> list[Record]:
        """Every record that can be read, by name."""
        folder = os.path.join(self.folder, "trust")
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        except OSError:
            return []
        records = list[Record]()
        for name in names:
            with contextlib.suppress(OSError):
                record = _read(os.path.join(folder, name))
                records += [record] if record is not None else []
        return sorted(records, key=lambda record: (record.name, record.origin))

    def launch_standing(self, server: McpServer, key: str) -> Standing:
        """How the way to a server stands to what was trusted: this is asked before anything is run or reached. Raises
        `OSError` if that cannot be read."""
        record = self.of(key)
        trusted = record.trusted_for(server) if record is not None else None
        if trusted is None:
            return "new"
        return "trusted" if trusted.launch_digest == server.launch_digest else "changed"

    def standing(self, server: McpServer, key: str, listing: Listing) -> Standing:
        """How a server and its list stand to what was trusted. Raises `OSError` if that cannot be read."""
        standing = self.launch_standing(server, key)
        record = self.of(key)
        if standing != "trusted" or record is None or record.trusted is None:
            return standing
        return "trusted" if record.trusted.listing_digest == listing.digest else "changed"

    def trust(self, server: McpServer, key: str, sight: Sight, by: str = "") -> Record:
        """Records a server as trusted. Raises `OSError` if that cannot be written."""
        return self._write(Record(key=key, name=server.name, origin=server.origin, trusted=sight, by=by))

    def agree(self, record: Record, by: str) -> Record:
        """Trusts what was seen instead of what was trusted. Of a server that was not started because it is reached
        otherwise, the tools that were trusted before are, and no others."""
        now, before = record.seen, record.before
        if now is not None and before is not None and not now.listing_digest:
            now = msgspec.structs.replace(
                now, listing_digest=before.listing_digest, about=before.about, tools=before.tools
            )
        return self._write(msgspec.structs.replace(record, trusted=now, seen=None, by=by, asks_first=False))

    def saw(self, server: McpServer, key: str, sight: Sight) -> None:
        """Notes what was there instead of what is trusted, for whoever is to agree to it. Takes nothing back that
        somebody agrees to meanwhile, in another process or here. Raises `OSError` if that cannot be done."""
        with self._alone():
            before = self.of(key) or Record(key=key, name=server.name, origin=server.origin)
            now = msgspec.structs.replace(before, seen=sight, asks_first=wants_person(server, before))
            if before != now:
                self._put(now)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """While this one alone changes records."""
        folder = os.path.join(self.folder, "trust")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, record: Record) -> Record:
        with self._alone():
            return self._put(record)

    def _put(self, record: Record) -> Record:
        path = self._path(record.key)
        fd, name = tempfile.mkstemp(dir=os.path.dirname(path))
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(record))
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
        return record


def _read(path: str) -> Record | None:
    """What a file holds; None if there is none, or this user may not even look where it would be. Raises `OSError`."""
    try:
        with open(path, "rb") as file:
            return known_types.decode(file.read(RECORD_BYTES_MAX), Record)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        if os.access(os.path.dirname(path), os.X_OK):
            raise
        return None
    except msgspec.MsgspecError:
        raise OSError(errno.EINVAL, "it holds no record that this version knows", path) from None


# --- diffs ---


def changes(before: Sight | None, now: Sight, *, lines_max: int | None = DIFF_LINES_MAX) -> list[str]:
    """What is different about a server from what was trusted, as the lines of a diff: how it is reached, then each tool
    whole. A list that was not asked for is not compared. Whoever is to agree is shown all of it (`lines_max=None`)."""
    lines = _diff("how it is reached", _launch_lines(before), _launch_lines(now))
    if now.listing_digest:
        old = {tool.name: tool for tool in before.tools} if before is not None else {}
        new = {tool.name: tool for tool in now.tools}
        for name in (*old, *(name for name in new if name not in old)):
            lines += _diff(f"tool {name}", _tool_lines(old.get(name)), _tool_lines(new.get(name)))
        if not lines and before is not None and before.listing_digest != now.listing_digest:
            lines += _diff("the order of the tools", list(old), list(new)) or [UNSHOWN]
    if lines_max is not None and len(lines) > lines_max:
        lines = [*lines[:lines_max], f"… {len(lines) - lines_max} more lines"]
    return lines


def _diff(what: str, old: list[str], new: list[str]) -> list[str]:
    if old == new:
        return []
    names = (what if old else "/dev/null", what if new else "/dev/null")
    return list(difflib.unified_diff(old, new, *names, lineterm="", n=1))


def _launch_lines(sight: Sight | None) -> list[str]:
    if sight is None:
        return []
    return [f"{name}: {_text(value)}" for name, value in sight.launch.items() if value not in (None, {}, [])]


def _tool_lines(tool: ListedTool | None) -> list[str]:
    if tool is None:
        return []
    lines = [f"title: {tool.title}"] if tool.title else []
    lines += [f"  {line}" for line in tool.description.splitlines()]
    told = (("parameters", tool.parameters), ("output", tool.output), ("annotations", tool.annotations))
    for what, value in told:
        if value:
            shown = msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=1).decode()
            lines += [f"{what}: {line}" if index == 0 else line for index, line in enumerate(shown.splitlines())]
    return lines or ["(nothing is said of it)"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
