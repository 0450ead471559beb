"""An agent: a plain value that says which model, which instructions, which tools, under which policy and budget."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from windlass.events.values.blocks import InputBlock, JsonObject
from windlass.events.values.isolation import AtEnd, Isolation
from windlass.events.values.items import ModelSettings
from windlass.events.values.policy import Policy, Role, WorkMode
from windlass.events.values.settings import Settings
from windlass.events.values.setup import Limits
from windlass.events.values.tools import RUN_WORKFLOW, SKILL_TOOLS
from windlass.events.values.usage import NANOS_PER_USD

from .agent_checks import check_agent, check_number

if TYPE_CHECKING:
    from windlass.events.base import Event
    from windlass.events.live import Live
    from windlass.mcp.config import Mcp
    from windlass.models.base import Model
    from windlass.runtime.commands.attachments import Attachable
    from windlass.runtime.context.archive import Archive
    from windlass.runtime.hooks.hook import Hook
    from windlass.skills.config import Skills
    from windlass.tools.toolset import ToolSet

    from .approvals import Approver
    from .result import Result

Prompt = str | Sequence[InputBlock]
"""What is said to an agent: a text, or blocks."""

Place = str | os.PathLike[str]
"""Where a store is: a file or a directory."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Hard limits: reserved before a request, settled after it. None = no limit of this kind."""

    usd: float | None = None
    """Money, in dollars; the model's price must be known."""
    tokens: int | None = None
    """Tokens, sent and written."""
    turns: int | None = None
    """Calls of the model; `Settings.turns_max` if none is given."""
    calls: int | None = None
    """Tool calls."""
    seconds: float | None = None
    """Time at work; waiting for people or timers does not count."""
    children: int | None = None
    """Child sessions, with those that they start themselves."""
    depth: int | None = None
    """How deep child sessions may go."""

    def __post_init__(self) -> None:
        for name in ("usd", "seconds"):
            check_number(name, getattr(self, name), (int, float))
        for name in ("tokens", "turns", "calls", "children", "depth"):
            check_number(name, getattr(self, name), (int,))

    def limits(self) -> Limits:
        """The limits as the kernel counts them."""
        return Limits(
            tokens=self.tokens,
            cost_nanos=None if self.usd is None else round(self.usd * NANOS_PER_USD),
            turns=self.turns,
            calls=self.calls,
            time_ms=None if self.seconds is None else round(self.seconds * 1000),
            children=self.children,
            depth=self.depth,
        )


class Overrides(TypedDict, total=False):
    """What a single run may have otherwise than its agent says. The policy is not among it: it is the session's, as its
    log has it."""

    model: str | Model
    budget: Budget
    """Those limits of a run that it names; the agent's others stay."""
    tools: Sequence[Any]
    """Only these of the agent's tools: names, globs or the tools themselves."""
    output: Any
    """The type of the answer; None for a plain text."""
    hooks: Sequence[Hook]
    """Beside the agent's own."""
    approver: Approver
    attachments: Sequence[Attachable]
    """What is given to the model with the prompt: paths, addresses, attachments."""


@dataclass(frozen=True)
class Agent:
    """What a session is run by. Holds no state of its own: any number of sessions may share one agent.

    `model` is a name such as `openai/gpt-5-mini`, a `Model`, or None for the best that is at hand. `budget` holds for
    each run, `session_budget` for a session's whole life."""

    name: str
    """What binds its sessions to this code: 1 to 100 characters."""
    model: str | Model | None = None
    """A name such as `openai/gpt-5-mini`, a `Model`, or None for the best that is at hand."""
    instructions: str = ""
    """What the model is told first, in every request."""
    tools: Sequence[Any] = ()
    """Functions, tools made by `@tool`, and names of built-in tools."""
    policy: Policy = Policy()
    """What may run, what is asked about, what is denied."""
    budget: Budget = Budget()
    """Hard limits of each run, with the runs that continue it."""
    session_budget: Budget = Budget()
    """Hard limits of a session's whole life."""
    output: Any = None
    """The type of the final answer, or its JSON Schema; `Result.output` has the value."""
    knowledge: Sequence[str] = ()
    """Texts that the model is shown after the instructions and that are never compacted."""
    mode: WorkMode = "interactive"
    """`plan` allows only reading until a plan is approved; `autopilot` asks nobody and goes on by itself."""
    settings: Settings = Settings()
    """The numbers that a session runs by."""
    model_settings: ModelSettings = ModelSettings()
    """What is set on each request: temperature, length, thinking."""
    approver: Approver | None = field(default=None, compare=False)
    """Who is asked; without one, a run that needs a person ends `asked`."""
    hooks: Sequence[Hook] = field(default=(), compare=False)
    """Code of one's own at named points."""
    archive: Archive | None = field(default=None, compare=False)
    """Where what leaves the history is kept and found again; the session's own log if none is given."""
    summary_model: str | Model | None = None
    """The model that writes summaries; the session's own if absent."""
    quarantine: bool = False
    """Whether its sessions may only read, for good: nothing is written, run, sent or approved for later, and what they
    say is untrusted."""
    agents: Sequence[Agent] = ()
    """Specialists: agents that its sessions may have child sessions run by, with the tool `spawn`."""
    description: str = ""
    """What it is good for, for whoever chooses among specialists."""
    display_name: str = ""
    """What people read in place of its name."""
    role: Role = "custom"
    """What a specialist is for, and with it what it has unless more is said: `explore`, `plan` and `verify` only read,
    `implement` works in a worktree of its own if there is a repository."""
    isolation: Isolation | None = None
    """How its child sessions are kept apart: `shared`, `worktree` or `read_only`; as its role says if none is given."""
    at_end: AtEnd = "merge"
    """What becomes of the changes in a worktree when the child has done its work: `merge`, `keep` or `drop`."""
    skills: Any = None
    """Instructions that are loaded when they are needed: a folder of skills, several, True for those of the default
    folders, or `windlass.skills.config.Skills`."""
    mcp: Any = None
    """MCP servers whose tools it has: `windlass.mcp.server.McpServer`s, objects as other clients have them, a file of
    them, True for those of a trusted workspace's `.mcp.json`, or `windlass.mcp.config.Mcp`."""

    machine: Any = None
    """A state machine that its sessions may go through, `windlass.machines.Machine`; or "auto": the model may create
    one when a task has a lifecycle."""
    flow: Any = None
    """The workflow that its sessions carry out instead of a conversation; a `Flow` makes such an agent itself."""

    def __post_init__(self) -> None:
        check_agent(self)

    def is_like(self, other: Agent) -> bool:
        """Whether another agent is this one, made once more: the same in everything, hooks and approver too."""
        if self is other:
            return True
        mine = (self.approver, tuple(self.hooks), self.archive)
        return self == other and mine == (other.approver, tuple(other.hooks), other.archive)

    @functools.cached_property
    def toolset(self) -> ToolSet:
        """The agent's tools. Raises `UsageError` for names that collide."""
        from windlass.runtime.bind.builtin_tools import builtin, resolved
        from windlass.tools.toolset import ToolSet

        given = list(self.tools)
        if self.role != "custom" and not given:
            from windlass.runtime.trees.specialists import ROLE_TOOLS

            given = list(ROLE_TOOLS.get(self.role, ()))
        if self.skills_config is not None and self.skills_config.tool and not self.skills_config.off:
            given += [name for name in SKILL_TOOLS if name not in given]
        tools = resolved(tool for tool in given if tool != RUN_WORKFLOW)
        if self.agents:
            from windlass.runtime.trees.specialists import spawn_tool

            tools = [*tools, spawn_tool(self.agents), builtin("tell_child")]
            if any(agent.settings.budget_asked for agent in _below(self)):
                tools.append(builtin("grant_child"))
        if RUN_WORKFLOW in given:
            from windlass.events.errors import UsageError
            from windlass.runtime.flows.authored import workflow_tool

            if not self.agents:
                raise UsageError(f"agent {self.name!r}: {RUN_WORKFLOW} needs specialists: give it some, agents=[...]")
            tools = [*tools, workflow_tool(self.agents)]
        if self.machine is not None:
            from windlass.runtime.machines.state_tools import machine_tools

            there = {tool.name for tool in tools}
            tools = [*tools, *(tool for tool in machine_tools(self.machine) if tool.name not in there)]
        return ToolSet(tools)

    @functools.cached_property
    def workflows(self) -> Agent | None:
        """What the workflows are bound to that its model writes; None if it may write none."""
        if RUN_WORKFLOW not in self.tools:
            return None
        from windlass.runtime.flows.authored import coordinator_of

        return coordinator_of(self)

    @functools.cached_property
    def skills_config(self) -> Skills | None:
        """The agent's skills; None if it has none. Raises `UsageError` for what means none."""
        if self.skills is None or self.skills is False:
            return None
        from windlass.skills.config import skills_of

        return skills_of(self.skills)

    @functools.cached_property
    def mcp_config(self) -> Mcp | None:
        """The agent's MCP servers; None if it has none. Raises `UsageError` for what means none."""
        if self.mcp is None or self.mcp is False:
            return None
        from windlass.mcp.config import mcp_of

        return mcp_of(self.mcp)

    @property
    def machine_digest(self) -> Any:
        """What of its machine shapes the agent's behaviour."""
        return self.machine if isinstance(self.machine, str) else msgspec.to_builtins(self.machine.spec)

    @functools.cached_property
    def output_schema(self) -> JsonObject | None:
        """The JSON Schema of the output type."""
        if self.output is None:
            return None
        if isinstance(self.output, Mapping):
            return dict(self.output)
        from windlass.runtime.bind.structured_output import schema_of

        return schema_of(self.output)

    @functools.cached_property
    def digest(self) -> str:
        """A digest of all that shapes the agent's behaviour, but for the code of its tools' helpers."""
        parts = {
            "name": self.name,
            "instructions": self.instructions,
            "knowledge": list(self.knowledge),
            "tools": [spec.digest for spec in self.toolset.specs],
            "policy": msgspec.to_builtins(self.policy),
            "limits": [msgspec.to_builtins(b.limits()) for b in (self.budget, self.session_budget)],
            "output": self.output_schema,
            "settings": msgspec.to_builtins(self.settings),
            "model_settings": msgspec.to_builtins(self.model_settings),
            **({"quarantine": True} if self.quarantine else {}),
            **({"role": self.role} if self.role != "custom" else {}),
            **({"isolation": [self.isolation, self.at_end]} if self.isolation is not None else {}),
            **({"flow": msgspec.to_builtins(self.flow.graph)} if self.flow is not None else {}),
            **({"machine": self.machine_digest} if self.machine is not None else {}),
            **({"skills": msgspec.to_builtins(self.skills_config)} if self.skills_config is not None else {}),
            **({"mcp": msgspec.to_builtins(self.mcp_config)} if self.mcp_config is not None else {}),
        }
        return hashlib.blake2b(msgspec.json.encode(parts, order="deterministic"), digest_size=12).hexdigest()

    # --- the simplest way to run it ---

    async def run(
        self, prompt: Prompt, *, store: Place | None = None, session: str | None = None, **overrides: Unpack[Overrides]
    ) -> Result:
        """Runs one prompt to its end and gives the result; raises if it fails. Nothing is kept without `store`. For
        this run alone, the `Overrides` take the place of what the agent says."""
        from .oneshot import run

        return await run(self, prompt, store=store, session=session, overrides=overrides)

    def stream(
        self, prompt: Prompt, *, store: Place | None = None, session: str | None = None, **overrides: Unpack[Overrides]
    ) -> AsyncIterator[Event | Live]:
        """Runs one prompt and gives its events, live, until its terminal. Leaving the loop ends the work, since nobody
        is left to do it; with `store` it goes on when the store is opened again."""
        from .oneshot import stream

        return stream(self, prompt, store=store, session=session, overrides=overrides)

    def run_sync(
        self, prompt: Prompt, *, store: Place | None = None, session: str | None = None, **overrides: Unpack[Overrides]
    ) -> Result:
        """`run` for code that is not async. Works inside a running event loop too (a notebook), in a thread; there,
        `await agent.run(...)` does the same without one."""
        from .oneshot import run_sync

        return run_sync(self, prompt, store=store, session=session, overrides=overrides)


def _below(agent: Agent) -> Iterator[Agent]:
    """The specialists of an agent and all below them: what one of them asks for goes through every agent above it."""
    waiting, seen = list(agent.agents), {id(agent)}
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            waiting += one.agents
            yield one
