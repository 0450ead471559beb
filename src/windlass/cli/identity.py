"""Who gives commands from this terminal, how that is known, and under which ids."""

from __future__ import annotations

import os
import secrets

from windlass.events.base import Auth

AUTH: Auth = "os_user"
"""Commands of a terminal come from whoever the operating system runs it as, whatever the environment says."""


def fresh_command_id() -> str:
    """An id for a command from this terminal."""
    return f"cli-{secrets.token_hex(8)}"


def actor() -> str:
    """Who gives commands here: the user that this process runs as."""
    import pwd

    user = os.getuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"
