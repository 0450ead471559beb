"""Verbs that keep logs: verify, export, import, prune."""
