"""Sandboxes: where the processes and files of a session's tools live."""
