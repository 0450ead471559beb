"""What a folder's git repository says of itself, by reading a few small files. Git is never run: no hook, no filter, no
include and no helper of a repository can do anything here, and nothing that is read is believed without a check."""

from __future__ import annotations

import os
import re
import stat

from windlass.events.values.blocks import Value

LEVELS_MAX = 64
"""How many folders above a workspace are looked at."""
POINTER_BYTES_MAX = 8 * 1024
"""Of a `.git` file, a HEAD or a commondir."""
CONFIG_BYTES_MAX = 256 * 1024
NAME_CHARS_MAX = 255
SEGMENTS_MAX = 12

READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""A pipe or a device in a file's place must never hold us up."""

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
SEGMENT = re.compile(r"[A-Za-z0-9_~.+-]{1,100}")
SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
ADDRESS = re.compile(r"(?:https?|ssh|git|git\+ssh|ftps?)://[^/]*/(?P<path>.+)", re.IGNORECASE)
SHORT_ADDRESS = re.compile(r"[^/\\:]{2,}:(?P<path>[^/\\].*)")
"""Such as git@host:owner/name; one letter before the colon is a drive."""


class Repository(Value, frozen=True, kw_only=True):
    """A repository as its files show it."""

    root: str
    branch: str | None = None
    """A branch, another ref, or `detached at <commit>`, which no ref can be called."""
    name: str | None = None
    """Owner and name, from the address of `origin`; never its host or credentials."""


def find(folder: str) -> tuple[Repository | None, tuple[str, ...]]:
    """The repository that a folder lies in, and every path that the answer depends on. Looks upward through folders of
    one file system. A repository of another user than the folder's or ours is passed over: whoever may write
    somewhere above must not become the root of our work."""
    seen: list[str] = []
    device = _about(folder)
    place = folder
    for _ in range(LEVELS_MAX):
        seen.append(os.path.join(place, ".git"))
        repository = _repository(place, folder, seen)
        if repository is not None:
            return repository, tuple(seen)
        above = os.path.dirname(place)
        if above == place or _about(above) != device:
            break
        place = above
    return None, tuple(seen)


def _about(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except (OSError, ValueError):
        return None


def _repository(place: str, folder: str, seen: list[str]) -> Repository | None:
    own = git_folder(os.path.join(place, ".git"))
    if own is None or not _ours((place, own), folder):
        return None
    shared = _shared(own)
    head, config = os.path.join(own, "HEAD"), os.path.join(shared, "config")
    seen += (head, config)
    branch = branch_of(head)
    if branch is None:
        return None
    return Repository(root=place, branch=branch or None, name=repository_of(read(config, CONFIG_BYTES_MAX) or ""))


def _ours(places: tuple[str, ...], folder: str) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    try:
        owners = {os.geteuid(), os.stat(folder).st_uid}
        return all(os.stat(place).st_uid in owners for place in places)
    except OSError:
        return False


def git_folder(path: str) -> str | None:
    """Where a `.git` leads: itself if it is a folder, else where the file (of a worktree, a submodule) points."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(mode):
        return path
    text = read(path, POINTER_BYTES_MAX) if stat.S_ISREG(mode) else None
    if text is None or not text.startswith("gitdir:"):
        return None
    return _pointed(os.path.dirname(path), text.removeprefix("gitdir:"))


def _shared(own: str) -> str:
    """The folder that a worktree shares with the others; itself if there is only one."""
    text = read(os.path.join(own, "commondir"), POINTER_BYTES_MAX)
    return (_pointed(own, text) if text is not None else None) or own


def _pointed(base: str, text: str) -> str | None:
    """The folder that a pointer names, seen from where it stands."""
    target = text.strip()
    if not target or "\0" in target or "\n" in target:
        return None
    place = os.path.normpath(os.path.join(base, target))
    return place if os.path.isdir(place) else None


def branch_of(head: str) -> str | None:
    """What a HEAD names: a branch, another ref, `detached at <commit>`; "" where it names something that has no name;
    None if it is no HEAD at all."""
    try:
        text: str | None = "ref: " + os.readlink(head)
    except (OSError, ValueError):
        text = read(head, POINTER_BYTES_MAX)
    if text is None:
        return None
    text = text.strip()
    if COMMIT.fullmatch(text):
        return f"detached at {text}"
    if not text.startswith("ref:"):
        return None
    ref = text.removeprefix("ref:").strip()
    if not ref.startswith("refs/"):
        return None
    name = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else ref.removeprefix("refs/")
    # Repositories that keep their refs in tables leave a name here that no branch can have.
    return name if is_name(name) else ""


def is_name(name: str) -> bool:
    """Whether a ref may be called so, as far as it matters to those who read it."""
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or any(c in name for c in ' ~^:?*[\\"'):
        return False
    return ".." not in name and not any(part.startswith(".") or not part for part in name.split("/"))


def repository_of(config: str) -> str | None:
    """The owner and name in the address of `origin`."""
    address = origin_of(config)
    return None if address is None else name_in(address)


def origin_of(config: str) -> str | None:
    """The first address of `origin` in the text of a config. Includes and rewritings are not followed."""
    here = False
    for line in config.replace("\\\n", "").splitlines():
        line = line.strip()
        section = SECTION.match(line)
        if section is not None:
            here = section[1].lower() == "remote" and section[2] == "origin"
            line = line[section.end() :].strip()
        key, equals, value = line.partition("=")
        if here and equals and key.strip().lower() == "url":
            return _value(value)
    return None


def _value(text: str) -> str:
    """A value without its quotes and its comment."""
    pieces: list[str] = []
    quoted = False
    chars = iter(text.strip())
    for char in chars:
        if char == "\\":
            pieces.append(next(chars, ""))
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            pieces.append(char)
    return "".join(pieces).strip()


def name_in(address: str) -> str | None:
    """Owner and name out of an address of the net; None for a path of this machine and for what looks like neither."""
    match = ADDRESS.fullmatch(address) or (None if "://" in address else SHORT_ADDRESS.fullmatch(address))
    if match is None:
        return None
    path = re.split(r"[?#]", match["path"])[0].strip("/").removesuffix(".git")
    segments = [segment for segment in path.split("/") if segment]
    if not 2 <= len(segments) <= SEGMENTS_MAX or not all(SEGMENT.fullmatch(segment) for segment in segments):
        return None
    return None if any(set(segment) == {"."} for segment in segments) else "/".join(segments)


def read(path: str, most: int) -> str | None:
    """A small regular file as text; None for anything else: missing, too large, no file, not to be read."""
    try:
        fd = os.open(path, READ)
    except (OSError, ValueError):
        return None
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            return None
        data = b""
        while len(data) <= most:
            piece = os.read(fd, most + 1 - len(data))
            if not piece:
                return data.decode("utf-8", "surrogateescape")
            data += piece
        return None
    except OSError:
        return None
    finally:
        os.close(fd)
