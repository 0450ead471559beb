"""Agents as MCP tools, over stdio and HTTP: sessions begun, told, waited for, read and answered by MCP clients."""
