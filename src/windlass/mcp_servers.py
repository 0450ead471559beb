"""MCP servers of a session: waiting for them, their prompts, and logins at them."""

from windlass.mcp.config import Mcp
from windlass.mcp.login.interactive import LoginAsk, LoginError, login, logout
from windlass.mcp.prompts import PromptArgument, ServerPrompt
from windlass.mcp.server import McpServer
from windlass.runtime.mcp.session_prompts import prompts, ready, send_prompt

__all__ = [
    "LoginAsk",
    "LoginError",
    "Mcp",
    "McpServer",
    "PromptArgument",
    "ServerPrompt",
    "login",
    "logout",
    "prompts",
    "ready",
    "send_prompt",
]
