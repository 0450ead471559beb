"""Background jobs as tools see them: what starts, watches and ends them, and the tools by which a model does."""

from windlass.tools.tool import AnyTool

JOB_TOOLS = ("jobs", "job_output", "kill_job")


def job_tool(name: str) -> AnyTool:
    """One of the tools for background jobs; what it needs is loaded now."""
    from .job_tools import made

    return made(name)
