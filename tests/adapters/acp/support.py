"""What editors start, and what they are given to talk to."""

from __future__ import annotations

import pathlib
import sys

AGENTS = pathlib.Path(__file__).parent / "agents.py"
WAIT_S = 200.0
PROGRAM_S = 900.0
"""How long a whole scenario may take on a machine that is very busy."""
ROOT = pathlib.Path(__file__).parents[3]


def command(folder: pathlib.Path, *more: str) -> list[str]:
    """The words that start the program with the agent of these tests and a store of its own."""
    words = [sys.executable, "-m", "windlass.cli.main", "acp", str(AGENTS), "--store", str(folder / "kept.db")]
    return [*words, "--drain", "0", *more]
