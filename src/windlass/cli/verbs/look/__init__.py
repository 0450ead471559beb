"""Verbs that look at sessions and change nothing."""
