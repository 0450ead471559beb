"""Agents behind AG-UI clients: what a page sends becomes commands to a session, and the log its events."""
