"""Which file of tokens a verb works on: the one that is named, else that of the user's state folder."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.server.access.token_file import TokenFile

FILE = "tokens.json"


def token_file(args: argparse.Namespace) -> TokenFile:
    """The file of tokens. Raises `UsageError` if the folder that it lies in is not this user's alone."""
    from windlass.server.access.token_file import TokenFile

    from .store_place import state_room

    return TokenFile(args.tokens) if args.tokens else TokenFile(state_room() / FILE)
