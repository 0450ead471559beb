"""The tools of a machine: those by which the agent goes through it, and those by which its states do their work."""

from __future__ import annotations

import functools
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from windlass.events.values.blocks import JsonObject
from windlass.events.values.machines import MachineSpec
from windlass.kernel.parts.machines.machine_tools import MACHINE_TOOLS
from windlass.kernel.parts.tools.gate import STATE_TOOLS
from windlass.tools.context import ToolContext
from windlass.tools.jobs import job_host
from windlass.tools.planes.results import ToolResult
from windlass.tools.tool import AnyTool, Options, Tool

if TYPE_CHECKING:
    from .machine import Machine

RUN, POLL = WORK_TOOLS = STATE_TOOLS
"""The tools that states call: their programs run in the session's sandbox, and pass the gate like all that does."""
ASK = "ask_user"
CALL_TIMEOUT_MS = 660_000
CREATE = (
    "Create a state machine for a task with a lifecycle: one that waits for something outside, is looked after over "
    "time, or needs somebody to decide on the way. An ordinary task needs none. Kinds of states: agent (you work on "
    "its prompt), script (a program runs once), poll (a program runs every every_ms until its exit code is a success), "
    "timer (at_ms or after_ms), park (a person is asked its question), terminal (outcome completed, failed or "
    "cancelled; one that is completed must be there). next names the states that may follow; if empty, you choose. "
    "A command is a list of words that no shell reads; '{input.name}' as a whole word stands for a value of the input, "
    "which is also in the environment as INPUT_NAME."
)
SELECT = "Have the machine go to a state, with the input that the state needs. Without input the last one is kept."
LOOK = "Show the state machine: its states, which is the current one, and how often each was entered."


def machine_tools(given: Machine | str) -> list[AnyTool]:
    """The tools of an agent with a machine of its own, or of one that may create some."""
    from windlass.runtime.bind.builtin_tools import builtin

    authored = not isinstance(given, str)
    told = SELECT + (f"\n{shown(given.spec)}" if not isinstance(given, str) else "")
    own = [] if authored else [_kernel_tool("create_machine", CREATE)]
    own += [_kernel_tool("select_state", told), _kernel_tool("machine_state", LOOK), builtin(ASK)]
    source: Literal["author", "builtin"] = "author" if authored else "builtin"
    return [*own, *(_work_tool(name, source) for name in WORK_TOOLS)]


def shown(spec: MachineSpec) -> str:
    """What a model is told of a machine that it may go through."""
    lines = [f"The machine {spec.name}{f' is for: {spec.when}' if spec.when else ''}. Use it only if it fits. States:"]
    for one in spec.states:
        when = f": {one.when}" if one.when else ""
        follow = f"; then {' or '.join(one.next)}" if one.next else ""
        given = f"; input {msgspec.json.encode(one.input).decode()}" if one.input is not None else ""
        lines.append(f"- {one.name} ({one.kind}){when}{given}{follow}")
    return "\n".join([*lines, f"It begins with {spec.first}."])


def _kernel_tool(name: str, description: str) -> AnyTool:
    from windlass.runtime.bind.builtin_tools import parameters_of

    options = Options(
        name=name,
        description=description,
        parameters=parameters_of(MACHINE_TOOLS[name][0]),
        runs="kernel",
        contract="pure",
        traits=("read",),
        kind="read",
        source="builtin",
    )
    return Tool(None, options)


@functools.cache
def _work_tool(name: str, source: str) -> AnyTool:
    """What states of a machine run their programs with. Its author wrote those of an agent's own machine; those that a
    model wrote are asked about like every command of a model."""
    options = Options(
        name=name,
        contract="at_most_once" if name == RUN else "idempotent",
        traits=("read", "write", "execute", "egress"),
        kind="shell",
        source=source,
        timeout_ms=CALL_TIMEOUT_MS,
        describe=described_state,
        deferred=True,
    )
    return Tool(run_state if name == RUN else poll_state, options)


async def run_state(
    ctx: ToolContext,
    argv: Annotated[list[str], Meta(min_length=1, max_length=256, description="The program and its arguments.")],
    env: dict[str, str] = {},  # noqa: B006 - never changed
    cwd: str = ".",
    timeout_ms: int = 120_000,
    success_codes: list[int] = [0],  # noqa: B006
) -> ToolResult | job_host.Background:
    """Run the program of a state. A machine calls this by itself."""
    return await _run(ctx, argv, env, cwd, timeout_ms, success_codes)


async def poll_state(
    ctx: ToolContext,
    argv: Annotated[list[str], Meta(min_length=1, max_length=256, description="The program and its arguments.")],
    env: dict[str, str] = {},  # noqa: B006 - never changed
    cwd: str = ".",
    timeout_ms: int = 120_000,
    success_codes: list[int] = [0],  # noqa: B006
) -> ToolResult | job_host.Background:
    """Run the program of a poll once. A machine calls this by itself."""
    return await _run(ctx, argv, env, cwd, timeout_ms, success_codes)


async def _run(
    ctx: ToolContext, argv: list[str], env: dict[str, str], cwd: str, timeout_ms: int, success_codes: list[int]
) -> ToolResult | job_host.Background:
    from windlass.tools.shell.command_run import Command, run_command
    from windlass.tools.shell.shell_description import environment_of

    title = shlex.join(argv)
    given = Command(
        argv=tuple(argv),
        title=title,
        cwd=cwd,
        timeout_ms=timeout_ms,
        env=environment_of(title, cwd) | env,
        success_codes=tuple(success_codes),
        late="ends",
    )
    return await run_command(ctx, given)


def described_state(args: JsonObject, place: Any) -> Any:
    """What the program of a state is about: its words."""
    from windlass.tools.shell.shell_description import program_description

    return program_description(args, place)
