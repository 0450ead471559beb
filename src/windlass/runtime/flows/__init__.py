"""Workflows as the host sees them: graphs as values, checked; what their nodes do, by pure functions; diagrams."""
