"""What this user may do with a file, by the rights that count when it is opened."""

from __future__ import annotations

import os
import pathlib

_EFFECTIVE = os.access in os.supports_effective_ids


def may(path: pathlib.Path, mode: int) -> bool:
    """Whether a file or folder may be used like this (`os.R_OK` and its kin)."""
    return os.access(path, mode, effective_ids=_EFFECTIVE)
