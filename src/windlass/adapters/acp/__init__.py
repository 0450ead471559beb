"""The Agent Client Protocol, by which editors talk to agents: JSON-RPC over stdio, over our sessions."""
