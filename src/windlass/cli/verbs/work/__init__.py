"""Verbs that have agents work, here or for clients that ask."""
