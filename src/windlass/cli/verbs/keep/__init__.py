"""Verbs that keep logs, prove that they are whole, and move sessions from one store to another."""
