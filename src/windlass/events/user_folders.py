"""Where a user's own files lie, by the environment. Here, since every room asks and may import it.

Whoever has no home has none called `~`: that would be a folder in the workspace, and what somebody else put there (what
is trusted, skills) would be taken for the user's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

HOMELESS = "/dev/null/no-home-folder-is-known-set-HOME"
"""A home that nothing is ever in, and where nothing can be made."""


def home_folder(environ: Mapping[str, str] | None = None) -> str:
    """The home of whoever runs this: HOME, else what the system says; `HOMELESS` if neither is known."""
    given = (os.environ if environ is None else environ).get("HOME", "")
    if os.path.isabs(given):
        return given
    import pwd

    try:
        known = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return HOMELESS
    return known if os.path.isabs(known) else HOMELESS


def state_folder(environ: Mapping[str, str] | None = None) -> str:
    """The folder for what programs of this user keep between runs."""
    return _named("XDG_STATE_HOME", environ) or os.path.join(home_folder(environ), ".local", "state")


def cache_folder(environ: Mapping[str, str] | None = None) -> str:
    """The folder for what programs of this user can make again."""
    return _named("XDG_CACHE_HOME", environ) or os.path.join(home_folder(environ), ".cache")


def is_homeless(path: str) -> bool:
    """Whether a path is one of somebody whose home is not known."""
    return path == HOMELESS or path.startswith(f"{HOMELESS}/")


def expanded(path: str) -> str:
    """A path whose beginning `~` stands for the home; as it is if no home is known."""
    if path == "~" or path.startswith("~/"):
        home = home_folder()
        return path if is_homeless(home) else home.rstrip("/") + path[1:] or "/"
    return os.path.expanduser(path)


def _named(variable: str, environ: Mapping[str, str] | None) -> str:
    """The folder that a variable names. One that is not whole is to be passed over, as the XDG specification says."""
    given = (os.environ if environ is None else environ).get(variable, "")
    return given if os.path.isabs(given) else ""
