"""Where something is to be written: an open directory and a name in it, reached through no link, on no forbidden name.

The path that is named is the place that is written: a link on the way is refused with where it leads, so that nobody
agrees to one place and another one changes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.tools.files.protected_names import PLACES, Found, protected
from windlass.tools.files.root import FOLDER, Outside, Refusal, Root, checked
from windlass.tools.files.shown_names import shown

ROOT_NAMES = 2
"""How many names of the root itself count when a name is looked up among the protected ones."""
OUTSIDE_HINT = "absolute paths and '..' are refused: name the place from the root on"


class Place:
    """A name beneath the root, in its shortest form."""

    def __init__(self, root: Root, path: str) -> None:
        raw = checked(path)
        if path.startswith("/") or ".." in path.split("/"):
            raise Outside(f"{shown(path)} is no plain path beneath the root", code="outside_root", hint=OUTSIDE_HINT)
        names = [os.fsdecode(name) for name in raw.split(b"/") if name not in (b"", b".")]
        if not names:
            raise Refusal("that is the root itself", code="not_a_file", hint="name a file beneath it")
        self.root = root
        self.names = names
        self.path = "/".join(names)
        self.whole = os.path.join(root.path, self.path)

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def shown(self) -> str:
        """The path as text that can be recorded."""
        return os.fsencode(self.path).decode("utf-8", "replace")

    @property
    def shown_whole(self) -> str:
        """The same from the root of the file system."""
        return os.fsencode(self.whole).decode("utf-8", "replace")

    def protection(self, *, folder: bool = False) -> Found | None:
        """Why it may not be written, or not unasked."""
        place = PLACES.covering(self.whole)
        if place is not None:
            return Found(action="deny", why=PLACES.why(place), name=os.path.basename(place))
        above = self.root.path.split("/")[-ROOT_NAMES:]
        return protected("/".join([*above, self.path]), folder=folder)

    def check(self, *, folder: bool = False) -> None:
        """Raises `Refusal` for what nobody may write through a tool, and for what is excluded."""
        protection = self.protection(folder=folder)
        if protection is not None and protection.action == "deny":
            told = f"{shown(self.path)} is never written by tools ({protection.name}): {protection.why}"
            raise Refusal(told, code="protected")
        exclusion = self.root.exclusion
        if exclusion is not None and exclusion.covering(self.whole, self.root.path) is not None:
            raise Refusal(f"{shown(self.path)} is excluded: no model may see or change it", code="content_excluded")

    @contextmanager
    def opened(self, *, make: bool = False) -> Iterator[int]:
        """The directory that it is in, or is to be in; with `make`, directories that are missing are made. Raises
        `Refusal`."""
        above = "/".join(self.names[:-1]) or "."
        try:
            fd = self._made() if make else self.root.straight_folder(above)
        except OSError as error:
            raise self.refused(error) from None
        try:
            yield fd
        finally:
            os.close(fd)

    def _made(self) -> int:
        fd = self.root.straight_folder(".")
        for name in self.names[:-1]:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
                below = self.root.child_folder(fd, name)
            finally:
                os.close(fd)
            fd = below
        return fd

    def about(self, folder: int) -> os.stat_result | None:
        """What is there now; None if nothing is. A link is told as such."""
        try:
            return os.stat(self.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refused(error) from None

    def check_kind(self, about: os.stat_result, folder: int) -> None:
        """Raises `Refusal` for anything but a regular file."""
        mode = about.st_mode
        if stat.S_ISLNK(mode):
            raise self._link(folder)
        if stat.S_ISDIR(mode):
            raise Refusal(f"{shown(self.path)} is a directory", code="not_a_file")
        if not stat.S_ISREG(mode):
            kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
            raise Refusal(f"{shown(self.path)} is a {kind}: only regular files are changed", code="not_a_file")

    def _link(self, folder: int) -> Refusal:
        told = ""
        with contextlib.suppress(OSError):
            told = f" to {shown(os.readlink(self.name, dir_fd=folder))}"
        hint = "links are not followed for writing: name the file where it really is"
        return Refusal(f"{shown(self.path)} is a link{told}", code="is_a_link", hint=hint)

    def refused(self, error: OSError) -> Refusal:
        """What the model is told of an error of the system."""
        name = shown(self.path)
        match error.errno:
            case errno.ELOOP | errno.ENOTDIR if self._link_above() is not None:
                hint = "links are not followed for writing: name the file where it really is"
                return Refusal(f"{name} lies behind a link: {self._link_above()}", code="is_a_link", hint=hint)
            case errno.ENOTDIR:
                return Refusal(f"{name}: a part of the path is a file, not a directory", code="not_a_directory")
            case errno.EACCES | errno.EPERM:
                return Refusal(f"{name} may not be written by this process", code="permission_denied")
            case errno.EROFS:
                return Refusal(f"{name} lies on a file system that is read-only", code="permission_denied")
            case errno.ENOSPC | errno.EDQUOT:
                return Refusal(f"{name} was not written: the disk is full", code="disk_full")
            case errno.ENAMETOOLONG:
                return Refusal(f"{name[:80]}… is too long a name or too deep a path", code="not_written")
            case errno.EXDEV:
                return Outside(f"{name} leads out of the root", code="outside_root", hint=OUTSIDE_HINT)
            case errno.EEXIST:
                return Refusal(f"there is already something at {name}", code="already_there")
            case errno.ENOENT:
                return Refusal(f"there is no {name}", code="not_found", hint="use list or glob to see what is there")
        return Refusal(f"{name} cannot be written: {error.strerror}", code="not_written")

    def _link_above(self) -> str | None:
        """The first link on the way, and where it leads, to be shown."""
        fd = self.root.straight_folder(".")
        try:
            for at, name in enumerate(self.names[:-1], start=1):
                try:
                    return f"{shown('/'.join(self.names[:at]))} leads to {shown(os.readlink(name, dir_fd=fd))}"
                except OSError:
                    below = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=fd)
                    os.close(fd)
                    fd = below
        except OSError:
            return None
        finally:
            os.close(fd)
        return None
