"""Where the tests of stores put their files."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture
def memory_path() -> Iterator[pathlib.Path]:
    """A directory in memory where there is one: the death of a process looks the same there, and it is quicker."""
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield pathlib.Path(path)
