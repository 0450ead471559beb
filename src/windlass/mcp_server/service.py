"""The MCP service: what its protocol asks, handed to tools and resources; and what went wrong, told in its way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from windlass.server.problems import ProblemBody, problem_of

from . import resources, tools
from .arguments import schema_of
from .caller import Caller
from .desk import Desk

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

NAME = "windlass"
ABOUT = (
    "Agents whose work is kept in sessions. Each agent_… tool begins a session, or continues the one that session_id "
    "names, and waits for its answer; a run goes on if nobody waits, and wait hears how it ended. What a session asks "
    "of people is put before the user by the client; a model cannot approve."
)
CallerOf = Callable[["ServerRequestContext[Any, Any]"], Caller]


def service(desk: Desk, caller_of: CallerOf) -> Server[Any]:
    """An MCP server over a desk. `caller_of` says who makes a request."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    served = tools.tools_of(desk.tenants.agents)
    schemas = {name: schema_of(tool.takes) for name, tool in served.items()}

    async def list_tools(ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        caller = caller_of(ctx)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.words,
                    input_schema=schemas[tool.name],
                    annotations=types.ToolAnnotations(read_only_hint=tool.reads, open_world_hint=not tool.reads),
                )
                for tool in served.values()
                if caller.may(tool.role)
            ]
        )

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> Any:
        try:
            return await tools.call_tool(served, desk, caller_of(ctx), ctx, params)
        except Exception as error:
            body, _ = problem_of(error)
            return _failed(body)

    async def list_resources(ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListResourcesResult:
        with _told():
            return await resources.list_resources(desk, caller_of(ctx), params.cursor if params else None)

    async def list_templates(ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListResourceTemplatesResult:
        return await resources.list_templates()

    async def read_resource(
        ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with _told():
            caller = caller_of(ctx)
            with desk.counted(caller):
                return await resources.read_resource(desk, caller, params.uri)

    return Server(
        NAME,
        version=version("windlass"),
        instructions=ABOUT,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _failed(body: ProblemBody) -> Any:
    """A call that came to nothing: a result, so that the model reads why."""
    from mcp_types import CallToolResult, TextContent

    plain = {"status": body.status, "code": body.code, "detail": body.detail}
    return CallToolResult(content=[TextContent(text=body.detail)], structured_content=plain, is_error=True)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What goes wrong, as an error of the protocol; what nobody foresaw is logged and not told."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

    try:
        yield
    except MCPError:
        raise
    except Exception as error:
        body, _ = problem_of(error)
        code = INVALID_PARAMS if body.status < 500 else INTERNAL_ERROR
        raise MCPError(code=code, message=body.detail, data={"code": body.code}) from None
