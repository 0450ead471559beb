"""Tools over one directory, which they never leave: list, read, glob and grep; and, if asked for by name, those that
change files in it.

Agent("reader", tools=["list", "read"])            # beneath the current directory
Agent("reader", tools=file_tools("docs"))          # beneath another one
Agent("writer", tools=["read", "edit"])            # those that write are asked about, unless a policy allows them
"""

from __future__ import annotations

from .limits import FileLimits
from .root import Outside, Refusal, Root
from .tool_definitions import FILE_TOOLS, WRITE_TOOLS, file_tools

__all__ = ["FILE_TOOLS", "WRITE_TOOLS", "FileLimits", "Outside", "Refusal", "Root", "file_tools"]
