"""The MCP servers of a session: connected when it is opened, their tools mounted, and what becomes of them on
record."""
