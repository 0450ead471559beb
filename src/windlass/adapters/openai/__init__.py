"""Agents as models of OpenAI's Responses API: what its clients send becomes commands, and the log their events."""
