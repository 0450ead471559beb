"""Verbs that set up an installation, say what it trusts and allows, and look whether it is sound."""
