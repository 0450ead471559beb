"""Shell commands: how they are read and judged, and the tools that run them."""

from windlass.tools.tool import AnyTool

SHELL_TOOLS = ("shell", "run_program")


def shell_tool(name: str) -> AnyTool:
    """One of the tools that run commands; what it needs is loaded now."""
    from .shell_tool import command_tool

    return command_tool(name)
