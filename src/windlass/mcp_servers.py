"""MCP servers of a session: waiting for them, and their prompts."""

from windlass.mcp.config import Mcp
from windlass.mcp.prompts import PromptArgument, ServerPrompt
from windlass.mcp.server import McpServer
from windlass.runtime.mcp.session_prompts import prompts, ready, send_prompt

__all__ = ["Mcp", "McpServer", "PromptArgument", "ServerPrompt", "prompts", "ready", "send_prompt"]
