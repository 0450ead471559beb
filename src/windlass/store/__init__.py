"""Where logs live: the seam, the stores behind it, and what can be asked of any of them."""

from __future__ import annotations

from .base import Capabilities, Durability, Key, Store
from .chain import history, verify_chain
from .memory import MemoryStore

__all__ = ["Capabilities", "Durability", "Key", "MemoryStore", "Store", "history", "verify_chain"]
