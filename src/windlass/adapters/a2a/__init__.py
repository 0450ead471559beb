"""Agents behind A2A clients: messages become commands to sessions, and tasks are told from their logs."""
