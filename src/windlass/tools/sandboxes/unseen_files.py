"""Files of a folder that a process must not see: found by the globs of a policy, so that a sandbox can cover them."""

from __future__ import annotations

import os

from windlass.events.values.blocks import Value
from windlass.tools.files.exclusion import Exclusion, exclusion_of

ENTRIES_MAX = 100_000
FOUND_MAX = 512
"""Each of them is a mount of its own."""


class Unseen(Value, frozen=True, kw_only=True):
    """What lies in a folder and must not be seen, as whole paths; a folder stands for all that is in it."""

    paths: tuple[str, ...] = ()
    whole: bool = True
    """Whether all of it was looked at."""


def unseen_in(root: str, globs: tuple[str, ...]) -> Unseen:
    """Looks through a folder, within bounds. A link counts as what it leads to, if that lies in the folder."""
    exclusion = exclusion_of(globs)
    if exclusion is None:
        return Unseen()
    root = os.path.realpath(root)
    covered_paths: dict[str, None] = {}
    left, waiting = ENTRIES_MAX, [root]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # nor can the process look into it
        except OSError:
            return Unseen(paths=tuple(covered_paths)[:FOUND_MAX], whole=False)
        left -= len(entries)
        if left < 0 or len(covered_paths) > FOUND_MAX:
            return Unseen(paths=tuple(covered_paths)[:FOUND_MAX], whole=False)
        for entry in entries:
            covered = _covered(exclusion, root, entry)
            if covered is not None:
                covered_paths[covered] = None
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return Unseen(paths=tuple(covered_paths))


def _covered(exclusion: Exclusion, root: str, entry: os.DirEntry[str]) -> str | None:
    """What is to be covered for an entry; None if it may be seen."""
    if exclusion.covering(entry.path, root) is None:
        return None
    real = os.path.realpath(entry.path)
    return real if real.startswith(root + os.sep) and os.path.exists(real) else None
