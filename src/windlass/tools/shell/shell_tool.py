"""The tools that run commands: `shell` gives a text to bash, `run_program` starts a program with its arguments and no
shell between. Both run in the session's sandbox, within their time."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from windlass.events.tools.permissions import ShellDetail
from windlass.events.values.blocks import JsonObject
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.description import CallPlace, Description
from windlass.tools.jobs import job_host
from windlass.tools.planes.results import ToolResult
from windlass.tools.sandboxes.sandbox import OPENED_MAX
from windlass.tools.tool import AnyTool, Options, Tool

from .command_run import Command, run_command
from .shell_description import environment_of, program_description, shell_description

COMMAND_CHARS_MAX = 32_000
INTENTION_CHARS_MAX = 500
ARGUMENTS_MAX = 256
TIMEOUT_MS = 120_000
TIMEOUT_MS_MAX = 600_000
CALL_TIMEOUT_MS = TIMEOUT_MS_MAX + 60_000
"""For the call as a whole: its command's own time is over before."""
BASH = ("bash", "--noprofile", "--norc", "-c")
DETACHED = "it goes on when the session ends, until somebody stops it"
NO_BASH = "[there is no bash here: sh ran this]\n"

Intention = Annotated[
    str, Meta(max_length=INTENTION_CHARS_MAX, description="Why, in a few words; shown to the person who is asked.")
]
Folder = Annotated[str, Meta(max_length=4_096, description="Where to run it, relative to the workspace.")]
Timeout = Annotated[int, Meta(ge=100, le=TIMEOUT_MS_MAX, description="How long to wait for its end.")]


Background = Annotated[
    bool | Literal["detached"],
    Meta(
        description="true = do not wait for its end, which is told to you later; 'detached' = it even goes on when the "
        "session ends."
    ),
]

HOST = r"^(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_.-]*)|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$"
PATH_CHARS_MAX = 4_096
Hosts = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=253, pattern=HOST)]],
    Meta(
        max_length=OPENED_MAX,
        description="Hosts that it must reach, such as 'example.org' or 'example.org:8443': in a sandbox it reaches no "
        "others, and somebody may be asked.",
    ),
]
WritePaths = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=PATH_CHARS_MAX)]],
    Meta(
        max_length=OPENED_MAX,
        description="Files and folders outside of the workspace that it must write, and that a sandbox would refuse.",
    ),
]
ReadPaths = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=PATH_CHARS_MAX)]],
    Meta(
        max_length=OPENED_MAX,
        description="The same for what it must read and a sandbox would hide.",
    ),
]


async def shell(
    ctx: ToolContext,
    command: Annotated[str, Meta(min_length=1, max_length=COMMAND_CHARS_MAX, description="What bash is given.")],
    intention: Intention = "",
    cwd: Folder = ".",
    timeout_ms: Timeout = TIMEOUT_MS,
    background: Background = False,
    reach_hosts: Hosts = [],  # noqa: B006 - never changed
    write_paths: WritePaths = [],  # noqa: B006
    read_paths: ReadPaths = [],  # noqa: B006
) -> ToolResult | job_host.Background:
    """Run a command with bash in the workspace. The result is what it printed (both outputs, as they came) and its exit
    code. Nothing is read from the terminal, and no state is kept between calls: set variables and folders within one
    command. A command that takes longer than its time goes on as a background job."""
    given = Command(
        argv=(*BASH, command),
        title=command,
        cwd=cwd,
        timeout_ms=timeout_ms,
        background=background,
        env=environment_of(command, cwd),
    )
    try:
        return await run_command(ctx, given)
    except ToolError as error:
        if error.code != "not_started":
            raise
    return await run_command(ctx, msgspec.structs.replace(given, argv=("sh", "-c", command), note=NO_BASH))


async def run_program(
    ctx: ToolContext,
    argv: Annotated[
        list[str],
        Meta(min_length=1, max_length=ARGUMENTS_MAX, description="The program and its arguments; no shell reads them."),
    ],
    intention: Intention = "",
    cwd: Folder = ".",
    timeout_ms: Timeout = TIMEOUT_MS,
    background: Background = False,
    reach_hosts: Hosts = [],  # noqa: B006 - never changed
    write_paths: WritePaths = [],  # noqa: B006
    read_paths: ReadPaths = [],  # noqa: B006
) -> ToolResult | job_host.Background:
    """Run a program with the given arguments, without a shell: nothing is expanded, quoted or redirected. The result
    is what it printed and its exit code."""
    title = shlex.join(argv)
    given = Command(
        argv=tuple(argv),
        title=title,
        cwd=cwd,
        timeout_ms=timeout_ms,
        background=background,
        env=environment_of(title, cwd),
    )
    return await run_command(ctx, given)


# --- what a call is about ---


def described_shell(args: JsonObject, place: CallPlace) -> Description:
    """What a command is about: as its text says, read with the grammar of the shell."""
    return _with_job(args, shell_description(args, place))


def described_program(args: JsonObject, place: CallPlace) -> Description:
    """What a program's call is about: its words."""
    return _with_job(args, program_description(args, place))


def _with_job(args: JsonObject, said: Description) -> Description:
    """Adds that a command outlives its session: somebody is asked about each such call, and it is more than reading."""
    if args.get("background") != "detached" or not isinstance(said.detail, ShellDetail):
        return said
    warning = "; ".join(part for part in (DETACHED, said.detail.warning) if part)
    detail = msgspec.structs.replace(said.detail, warning=warning, session_approval_offered=False)
    return msgspec.structs.replace(
        said, detail=detail, subject="", traits=None, exact=False, sensitive=f"a detached job: {DETACHED}"
    )


MADE: dict[str, tuple[Any, Any]] = {"shell": (shell, described_shell), "run_program": (run_program, described_program)}


def command_tool(name: str) -> AnyTool:
    """One of the tools that run commands."""
    function, describe = MADE[name]
    return Tool(function, _options(name, describe))


def _options(name: str, describe: Any) -> Options:
    return Options(
        name=name,
        contract="at_most_once",
        traits=("read", "write", "execute", "egress"),
        kind="shell",
        source="builtin",
        timeout_ms=CALL_TIMEOUT_MS,
        describe=describe,
    )
