"""The folder that a session works in: what git says of it, and which instruction files it has.

Without a folder nothing here is done at all. Nothing is decided here, and nothing is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.setup import Workspace
from windlass.events.values.tools import ToolSpec

from . import git
from .instruction_files import DEFAULT_NAMES, FoundFiles, candidates, checked_names, look

FOLDERS_KEPT_MAX = 10_000
"""For how many sessions a runtime remembers the folder that it was given. A session whose folder is forgotten goes on
with what its log says."""

LOOK_S = 5.0
"""How long a look may take; a disk that answers later is not waited for, and what was seen last stands."""

Stamp = tuple[int, ...]


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace as somebody named it. `names` = None if nobody did in this process: it is the folder of the log
    then, whose recorded instructions stand."""

    path: str
    trusted: bool = False
    names: tuple[str, ...] | None = DEFAULT_NAMES


def folder_of(
    path: str | os.PathLike[str] | None, *, trusted: bool = False, names: Sequence[str] | None = None
) -> Folder | None:
    """The folder that is meant; None if none is given. Raises `UsageError` for one that is not there."""
    if path is None:
        if trusted or names is not None:
            raise UsageError("trusted and instruction_files are about a workspace: give workspace= too")
        return None
    if isinstance(names, str):
        raise UsageError(f"instruction_files={names!r}: give a sequence of names, such as ({names!r},)")
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise UsageError(f"the workspace {os.fspath(path)!r} is no folder: give one that exists")
    chosen = DEFAULT_NAMES if names is None else checked_names(tuple(names))
    return Folder(path=real, trusted=trusted, names=chosen)


def recorded_folder(workspace: Workspace | None) -> Folder | None:
    """The folder that a log names, if nobody has named one since."""
    return None if workspace is None else Folder(path=workspace.cwd, names=None)


def may_change(spec: ToolSpec) -> bool:
    """Whether a tool may have changed files or run programs, by what it says of itself."""
    if spec.traits:
        return "write" in spec.traits or "execute" in spec.traits
    return spec.contract != "pure"


class Place:
    """One session's folder, watched: `look` reads again only if a stat says that something is different."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.workspace: Workspace | None = None
        self.files: FoundFiles | None = None
        """None if the recorded instructions stand."""
        self.exclude: tuple[str, ...] = ()
        """What no model may see: an instruction file that leads there is not read."""
        self._git_paths: tuple[str, ...] = ()
        self._file_paths: tuple[str, ...] = ()
        self._git_stamps: tuple[Stamp, ...] | None = None
        self._file_stamps: tuple[Stamp, ...] | None = None
        self._screen: tuple[str, ...] = ()
        self._top = folder.path

    async def look(self, *, files: bool = True) -> None:
        """Sees what is there now. In a thread, and not for long: a disk that does not answer must hold up nobody."""
        import asyncio

        try:
            async with asyncio.timeout(LOOK_S):
                await asyncio.to_thread(self.look_now, files=files)
        except TimeoutError:
            return

    def look_now(self, *, files: bool = True) -> None:
        """`look` for whoever may wait."""
        self._look_at_git()
        if files and self.folder.names is not None and self.workspace is not None:
            self._look_at_files(self.folder.names)

    def _look_at_git(self) -> None:
        stamps = _stamps(self._git_paths)
        if self._git_stamps == stamps:
            return
        folder = self.folder.path
        if not os.path.isdir(folder):
            self.workspace, self._git_stamps = None, None
            return
        repository, self._git_paths = git.find(folder)
        self._git_stamps = _stamps(self._git_paths)
        self._top = repository.root if repository is not None else folder
        self.workspace = Workspace(
            cwd=_text(folder),
            git_root=_text(repository.root) if repository is not None else None,
            repository=repository.name if repository is not None else None,
            branch=repository.branch if repository is not None else None,
        )

    def _look_at_files(self, names: tuple[str, ...]) -> None:
        paths = tuple(os.path.join(self._top, path) for path in candidates(self._top, self.folder.path, names))
        stamps = _stamps(paths)
        exclude = self.exclude
        if (self._file_paths, self._file_stamps, self._screen) == (paths, stamps, exclude):
            return
        # The stamps are those from before the reading: what changes meanwhile is read again the next time.
        self._file_paths, self._file_stamps, self._screen = paths, stamps, exclude
        self.files = look(self._top, self.folder.path, names, trusted=self.folder.trusted, exclude=exclude)


def _stamps(paths: Iterable[str]) -> tuple[Stamp, ...]:
    return tuple(_stamp(path) for path in paths)


def _stamp(path: str) -> Stamp:
    """What tells a file from another one and from its earlier self. A folder's times are left out: they change with
    each lock that is made in it."""
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return ()
    if stat.S_ISDIR(about.st_mode):
        return (about.st_dev, about.st_ino)
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _text(path: str) -> str:
    """A path as text that a log can hold, whatever bytes it has."""
    return os.fsencode(path).decode("utf-8", "replace")
