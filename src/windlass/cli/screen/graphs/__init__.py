"""Workflows, state machines and trees of sessions as people read them."""
