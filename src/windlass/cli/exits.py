"""The exit codes of every verb."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
ASKED = 3
"""A run waits for a person."""
SLEEPING = 4
"""A run sleeps until a time."""
INTERRUPTED = 130
