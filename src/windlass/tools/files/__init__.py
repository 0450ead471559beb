"""Read-only tools over one directory: list, read, glob and grep. They never leave it and never change anything.

Agent("reader", tools=["list", "read"])            # beneath the current directory
Agent("reader", tools=file_tools("docs"))          # beneath another one
"""

from __future__ import annotations

from .bounds import FileLimits
from .offered import FILE_TOOLS, file_tools
from .root import Outside, Refusal, Root

__all__ = ["FILE_TOOLS", "FileLimits", "Outside", "Refusal", "Root", "file_tools"]
