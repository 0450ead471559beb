"""Verbs that have an agent work: run, chat, demo."""
