"""Verbs that go back in a session, or another way from a point of it."""
