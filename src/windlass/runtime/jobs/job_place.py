"""Where the folders of jobs lie: in the user's state folder, by the store whose sessions they belong to."""

from __future__ import annotations

import hashlib
import os
import stat

from windlass.events.errors import UsageError
from windlass.events.user_folders import expanded, state_folder

DIGEST_CHARS = 16


def place_for_store(store: str, what: str = "jobs") -> str:
    """The folder for the jobs of a store, or for something else of it, by where the store is."""
    store = expanded(store)
    scheme, _, rest = store.partition(":")
    whole = os.path.realpath(rest if rest and scheme in ("sqlite", "jsonl") else store)
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "_-") else "_" for sign in _stem(whole))
    return os.path.join(state_folder(), "windlass", what, f"{plain[:40]}-{digest(whole)}")


def digest(text: str) -> str:
    """A short name that no other text has."""
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()[:DIGEST_CHARS]


def make_private(path: str) -> None:
    """Makes a folder for this user alone, or sees that it is one. Raises `UsageError` if somebody else could reach
    in."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if not os.path.lexists(path):
            os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(
            f"the folder for jobs {path!r} cannot be made ({error.strerror}): name one with jobs="
        ) from error
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(f"{path!r} is no folder that this user alone may write to: name another one with jobs=")


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0] or "store"
