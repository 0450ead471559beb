"""What a session is set up with, before it is spoken to: which agent and model, which tools under which verdict, which
instruction files, and what shadows what. Computed from the state; it changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from windlass.events.turns import Prepared
from windlass.events.values.blocks import Value
from windlass.events.values.policy import PermissionKind, Policy, WorkMode
from windlass.events.values.setup import Limits, Workspace
from windlass.events.values.tools import Contract, ToolSpec
from windlass.kernel.parts.tools import policy_rules, rule_words, verdicts
from windlass.kernel.parts.tools.kernel_tools import KERNEL_TOOLS
from windlass.kernel.state import State
from windlass.models.tokens import estimate_text
from windlass.runtime.context.recall_tools import RECALL_TOOLS
from windlass.runtime.workspace.instruction_files import InstructionFile
from windlass.tools.files import FILE_TOOLS

TITLE_CHARS_MAX = 80
BUILTIN_TOOLS = frozenset({*KERNEL_TOOLS, *RECALL_TOOLS, *FILE_TOOLS})


class ToolSetup(Value, frozen=True, kw_only=True):
    """One tool. `verdict` is what the policy says of a call that no condition speaks about, `why` the line that says
    it; `conditions` are the rules that may say otherwise for some arguments."""

    name: str
    kind: PermissionKind
    source: str
    contract: Contract
    verdict: verdicts.Outlook
    why: str = ""
    conditions: tuple[str, ...] = ()
    alias: str | None = None
    deferred: bool = False


class Knowledge(Value, frozen=True, kw_only=True):
    """One preloaded text: its first line, and what it weighs."""

    title: str
    tokens: int


class Collision(Value, frozen=True, kw_only=True):
    """Things that go by one name, and which of them counts."""

    kind: Literal["tool", "model_name", "instructions"]
    name: str
    between: tuple[str, ...]
    note: str


class SetupSummary(Value, frozen=True, kw_only=True):
    """The setup of a session at a glance. `trusted` = None if nobody said in this process."""

    session: str
    agent: str
    model: str
    mode: WorkMode
    tools: tuple[ToolSetup, ...] = ()
    instructions: tuple[InstructionFile, ...] = ()
    knowledge: tuple[Knowledge, ...] = ()
    skills: tuple[str, ...] = ()
    """The skills that can be loaded, by name."""
    collisions: tuple[Collision, ...] = ()
    unused_rules: tuple[str, ...] = ()
    """Rules of the policy that speak of none of the tools."""
    workspace: Workspace | None = None
    trusted: bool | None = None
    budget: Limits = Limits()
    """Of each run."""
    session_budget: Limits = Limits()
    sandbox: str | None = None
    """The kind of sandbox that commands run in, by name; None if none was named."""
    confined: bool = False
    """Whether that confines files and network, as it says here."""
    specialists: tuple[str, ...] = ()
    """The specialists of its agent, by name, as far as its code is here."""
    specialist: str | None = None
    """The one that is selected to run it."""


def summary(
    state: State,
    *,
    files: Sequence[InstructionFile] = (),
    knowledge: Sequence[str] = (),
    trusted: bool | None = None,
    confined: bool = False,
    specialists: tuple[str, ...] = (),
) -> SetupSummary:
    """The summary of a state, with what only the host knows."""
    return SetupSummary(
        session=state.session_id,
        agent=state.setup.agent.name,
        model=state.setup.model.name,
        mode=state.setup.mode,
        tools=tuple(tool_setup(state, spec, confined=confined) for spec in state.toolset.tools.values()),
        instructions=tuple(files),
        knowledge=tuple(_titled(text) for text in knowledge),
        skills=state.skills.names,
        collisions=(*tool_collisions(state.toolset.tools.values()), *file_collisions(files)),
        unused_rules=unused_rules(state.gate.policy, state.toolset.tools.values()),
        workspace=state.workspace.folder,
        trusted=trusted,
        budget=state.budget.run_limits,
        session_budget=state.budget.limits,
        sandbox=state.setup.options.sandbox,
        confined=confined,
        specialists=specialists,
        specialist=by.name if (by := state.setup.options.specialist) is not None else None,
    )


def tool_setup(state: State, spec: ToolSpec, *, confined: bool = False) -> ToolSetup:
    """A tool with what the gate would say of it now; `confined`: in a sandbox that confines."""
    verdict, why = verdicts.verdict_on(
        state, spec, Prepared(digest="", confined=confined and policy_rules.runs_in_sandbox(spec))
    )
    return ToolSetup(
        name=spec.name,
        kind=spec.kind,
        source=spec.source,
        contract=spec.contract,
        verdict=verdict,
        why=why,
        conditions=_conditions(state.gate.policy, spec),
        alias=spec.alias,
        deferred=spec.deferred,
    )


def _conditions(policy: Policy, spec: ToolSpec) -> tuple[str, ...]:
    return tuple(
        rule_words.describe(rule)
        for rule in policy.rules
        if rule.when is not None and policy_rules.speaks_of(rule, spec)
    )


def unused_rules(policy: Policy, specs: Collection[ToolSpec]) -> tuple[str, ...]:
    """The rules that speak of none of some tools."""
    rules = [rule for rule in policy.rules if not any(policy_rules.speaks_of(rule, spec) for spec in specs)]
    return tuple(rule_words.describe(rule) for rule in rules if rule.tool != "*")


def _titled(text: str) -> Knowledge:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return Knowledge(title=first[:TITLE_CHARS_MAX], tokens=estimate_text(text))


def tool_collisions(specs: Iterable[ToolSpec]) -> list[Collision]:
    """Names that several tools go by, on the model's side, or that a built-in tool has too."""
    collisions: list[Collision] = []
    by_model_name: dict[str, list[str]] = {}
    for spec in specs:
        by_model_name.setdefault(spec.alias or spec.name, []).append(spec.name)
        if spec.name in BUILTIN_TOOLS and spec.source != "builtin":
            collisions.append(
                Collision(
                    kind="tool",
                    name=spec.name,
                    between=(spec.source, "builtin"),
                    note=f"this is the {spec.source}'s tool, not the built-in one of that name",
                )
            )
    for name, tools in by_model_name.items():
        if len(tools) > 1:
            note = f"the model cannot tell them apart: {tools[-1]} is called"
            collisions.append(Collision(kind="model_name", name=name, between=tuple(tools), note=note))
    return collisions


def file_collisions(files: Sequence[InstructionFile]) -> list[Collision]:
    """Instruction files of one name in several folders."""
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(file.path.rpartition("/")[2], []).append(file.path)
    return [
        Collision(kind="instructions", name=name, between=tuple(paths), note="the nearest comes last")
        for name, paths in by_name.items()
        if len(paths) > 1
    ]


def recorded_files(sources: Sequence[str]) -> tuple[InstructionFile, ...]:
    """The files of recorded instructions, if nobody named the folder in this process."""
    files = []
    for source in sources:
        path, _, digest = source.rpartition("@")
        files.append(InstructionFile(path=path, digest=digest, used=True, note="as recorded"))
    return tuple(files)
