"""Calls of tools: the tools there are, what becomes of a call, and who may say so."""
