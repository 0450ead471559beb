"""MCP servers: how they are named and trusted, how they are reached, and what of theirs an agent may call."""
