"""Agents behind OpenAI clients, as models of both their APIs: requests become commands, and the log their answers."""
