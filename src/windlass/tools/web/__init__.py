"""The web: fetching a page, and which addresses may be reached at all.

Agent("reader", tools=["fetch"])                   # what the policy allows
Agent("reader", tools=[fetch_tool(timeout_ms=5_000)])
"""

from __future__ import annotations

from .fetch_tool import FETCH, fetch_tool

__all__ = ["FETCH", "fetch_tool"]
