"""Verbs that look at sessions and change nothing: ps, logs, show, inspect, cost."""
