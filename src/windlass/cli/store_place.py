"""Where the store of a workspace lies if none is named: in the user's state folder, never in the workspace itself. A
folder that was cloned or unpacked could bring a store along that somebody else has put together."""

from __future__ import annotations

import os
import pathlib
import stat

from windlass.events.user_folders import is_homeless, state_folder

FILE = "windlass.db"
NAME_CHARS = 40
DIGEST_CHARS = 12
NO_HOME = "no home folder is known: set HOME, or XDG_STATE_HOME, or name a store with --store or WINDLASS_STORE"


def workspace() -> pathlib.Path:
    """The folder whose sessions are kept together: the git repository around the current folder, else that itself."""
    here = pathlib.Path.cwd().resolve()
    for folder in (here, *here.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    return here


def default_place() -> pathlib.Path:
    """Where the store of the current workspace lies, whether or not it is there."""
    return _room() / _name(workspace()) / FILE


def make_room() -> None:
    """Makes the folder that the store of the current workspace lies in, for its owner alone. Raises `UsageError` if
    somebody else could reach in."""
    _make_private((_room(), default_place().parent))


def state_room() -> pathlib.Path:
    """The folder for all that is kept for this user, made for its owner alone. Raises `UsageError` if somebody else
    could reach in."""
    _make_private((_room(),))
    return _room()


def _make_private(folders: tuple[pathlib.Path, ...]) -> None:
    from windlass.events.errors import UsageError

    try:
        for one in reversed(folders[0].parents):
            if not os.path.lexists(one):
                os.mkdir(one, 0o700)
        for one in folders:
            if not os.path.lexists(one):
                os.mkdir(one, 0o700)
            status = os.lstat(one)
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if not ours:
                raise UsageError(
                    f"{str(one)!r} is no folder that this user alone may write to: stores are not kept there. Name one "
                    "with --store or WINDLASS_STORE"
                )
    except OSError as error:
        raise UsageError(
            f"the folder for stores {str(folders[-1])!r} cannot be made ({error.strerror}): name a store with --store "
            "or WINDLASS_STORE"
        ) from error


def _room() -> pathlib.Path:
    """The folder for all stores of this user. Raises `UsageError` if nobody knows where that would be: the place would
    be a folder called `~` in the workspace."""
    base = state_folder()
    if is_homeless(base):
        from windlass.events.errors import UsageError

        raise UsageError(NO_HOME)
    return pathlib.Path(base) / "windlass"


def _name(folder: pathlib.Path) -> str:
    """A name for a folder that people can tell, and that no other folder has."""
    import hashlib

    digest = hashlib.blake2b(os.fsencode(folder), digest_size=16).hexdigest()[:DIGEST_CHARS]
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "_-.") else "_" for sign in folder.name)
    return f"{plain.lstrip('.')[:NAME_CHARS] or 'root'}-{digest}"
