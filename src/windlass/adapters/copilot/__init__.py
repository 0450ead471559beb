"""The server of the GitHub Copilot SDK's clients: their JSON-RPC over stdio and TCP, over our sessions."""
