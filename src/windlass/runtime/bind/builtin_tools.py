"""Built-in tools, offered by name: those that the kernel performs, those that read the session's own past, those that
read and change files beneath the current directory, those that run commands, and the one that reads the web."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.tools import SKILL_TOOLS
from windlass.kernel.parts.tools.kernel_tools import KERNEL_TOOLS
from windlass.runtime.context.recall_tools import RECALL_TOOLS
from windlass.tools.files import FILE_TOOLS, WRITE_TOOLS, file_tools
from windlass.tools.jobs import JOB_TOOLS, job_tool
from windlass.tools.shell import SHELL_TOOLS, shell_tool
from windlass.tools.tool import AnyTool, Options, Tool

FETCH = "fetch"
"""Its module is loaded with the first agent that has it."""

SUBMIT = "submit_nodes"
"""Adds nodes to the workflow that a session works for."""
TELL = "tell"
"""Says something to another session of the tree."""
READ_PARENT = "read_parent"
"""Reads the conversation of the session above. Children that were begun to do so have it; nobody else may name it."""

DESCRIPTIONS = {
    "ask_user": "Ask the user something that you cannot find out yourself: one question with options to pick, several "
    "questions, or a form described by a JSON Schema. The result is the answer.",
    "todo": "Replace your list of todos. Give the whole list each time, with the status of each.",
    "plan": "Write down your plan. In plan mode it is shown to the user for approval before anything may change.",
    "task": "Note what you are doing: goal, criteria, current step, progress, notes, what you are blocked on. Only the "
    "fields you give are changed.",
    "complete_task": "Say that the task is complete, or cannot be completed, with a summary for the user.",
    "wait": "Set a timer, by duration or by time (milliseconds since 1970). End your turn to wait for it.",
    "load_tools": "Make tools of the catalogue available by name, from your next turn on.",
    "tell_child": "Say something to a child session that works in the background, by its id.",
    "grant_child": "Give a child session that has used what was set aside for it more of what you have left.",
}

BY_NAME = frozenset(
    (*KERNEL_TOOLS, *RECALL_TOOLS, *FILE_TOOLS, *WRITE_TOOLS, *SHELL_TOOLS, *JOB_TOOLS, FETCH, SUBMIT, TELL)
)
"""Every tool that is offered by its name."""


def parameters_of(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a kernel tool's arguments, in one object without references to its own name."""
    schema = msgspec.json.schema(shape)
    parts = schema.get("$defs", {})
    own = parts.pop(shape.__name__)
    own.pop("title", None)
    own.pop("description", None)
    own["additionalProperties"] = False
    if parts:
        own["$defs"] = {name: _plain(part) for name, part in parts.items()}
    return dict(own)


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "title"}


@lru_cache(maxsize=64)
def builtin(name: str) -> AnyTool:
    """A built-in tool that needs no more than its name. Raises `UsageError` and lists them otherwise."""
    if name in SHELL_TOOLS:
        return shell_tool(name)
    if name in JOB_TOOLS:
        return job_tool(name)
    runs: Literal["kernel", "host"] = "kernel"
    if name == FETCH:
        from windlass.tools.web import fetch_tool

        return fetch_tool()
    if name in KERNEL_TOOLS:
        description, parameters = DESCRIPTIONS[name], parameters_of(KERNEL_TOOLS[name][0])
    elif name in RECALL_TOOLS:
        description, parameters = RECALL_TOOLS[name]
        runs = "host"
    elif name in SKILL_TOOLS:
        from windlass.runtime.skills.skill_tools import SKILL_TOOLS as TOLD

        description, parameters = TOLD[name]
        runs = "host"
    elif name == SUBMIT:
        from windlass.runtime.flows.submission import SUBMIT_TOOLS

        description, parameters = SUBMIT_TOOLS[name]
        runs = "host"
    elif name == TELL:
        from windlass.runtime.trees.messages import TELL_TOOLS

        description, parameters = TELL_TOOLS[name]
        runs = "host"
    elif name == READ_PARENT:
        from windlass.runtime.trees.parent_conversation import READ_PARENT_TOOLS

        description, parameters = READ_PARENT_TOOLS[name]
        runs = "host"
    else:
        known = ", ".join(sorted(BY_NAME))
        raise UsageError(f"there is no built-in tool {name!r}: there are {known}")
    options = Options(
        name=name,
        description=description,
        parameters=parameters,
        runs=runs,
        contract="pure",
        traits=("read",),
        kind="read",
        source="builtin",
    )
    return Tool(None, options)


CATALOGUE_TOOLS = ("search_tools", "load_tools")
"""How a model finds tools that it is not shown."""


def resolved(tools: Any) -> list[Any]:
    """Tools as given, names replaced by the built-in tools they mean. File tools work beneath the session's folder, or
    beneath the directory that is current now in a session that has none. If tools are deferred, those that search and
    load them are there too: what nobody can find might as well not be there."""
    given = list(tools)
    named = [tool for tool in given if isinstance(tool, str) and tool in (*FILE_TOOLS, *WRITE_TOOLS)]
    files = {tool.name: tool for tool in file_tools(".", named, by_session=True)} if named else {}
    resolved_tools = [(files.get(tool) or builtin(tool)) if isinstance(tool, str) else tool for tool in given]
    if any(isinstance(tool, Tool) and tool.options.deferred for tool in resolved_tools):
        resolved_tools += [builtin(name) for name in CATALOGUE_TOOLS if name not in given]
    return resolved_tools
