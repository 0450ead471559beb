"""The state of one session: what its log adds up to. Changed by the fold alone; everything here has a bound.

A header, then one slice for each part, which is declared there. Contents are not here, only where they are in the log
and what they weigh.
"""

from __future__ import annotations

import msgspec

from windlass.events.values.models import ModelRef
from windlass.events.values.setup import Limits
from windlass.kernel.parts.asks import Ask, Asks
from windlass.kernel.parts.budgets import Budget
from windlass.kernel.parts.children import Children
from windlass.kernel.parts.context.archive import Archive
from windlass.kernel.parts.context.compaction import Compaction
from windlass.kernel.parts.context.history import History
from windlass.kernel.parts.context.prefix import Prefix
from windlass.kernel.parts.flows.nodes import Flow
from windlass.kernel.parts.losses import Losses
from windlass.kernel.parts.machines.states import Machine
from windlass.kernel.parts.mcp import Mcp
from windlass.kernel.parts.output import Output
from windlass.kernel.parts.queue import Queue
from windlass.kernel.parts.requests import Requests
from windlass.kernel.parts.runs import Run
from windlass.kernel.parts.schedules import Schedule
from windlass.kernel.parts.setup import CurrentSetup
from windlass.kernel.parts.signals import Signals
from windlass.kernel.parts.skills import Skills
from windlass.kernel.parts.tasks import CurrentTask
from windlass.kernel.parts.timers import Timers
from windlass.kernel.parts.tools.calls import Call, Calls
from windlass.kernel.parts.tools.gate import Gate
from windlass.kernel.parts.tools.jobs import Jobs
from windlass.kernel.parts.tools.labels import Labels
from windlass.kernel.parts.tools.repeats import Repeats
from windlass.kernel.parts.tools.toolset import Toolset
from windlass.kernel.parts.trees.grants import Grants
from windlass.kernel.parts.trees.worktrees import OwnTree
from windlass.kernel.parts.turns import Turn
from windlass.kernel.parts.workspace import WorkPlace
from windlass.kernel.phases import ACTIVE, AnyPhase, Left, New

STATE_VERSION = 25
"""Raised whenever the shape or meaning of the state changes; older snapshots are then ignored."""


class State(msgspec.Struct, kw_only=True, gc=False):
    """What the log of one session adds up to: a header, then a slice for each part."""

    session_id: str = ""
    parent_id: str | None = None
    root_id: str | None = None
    scope: str = "primary"
    depth: int = 0
    seq: int = 0
    now_ms: int = 0
    epoch: int = 0
    started_ms: int = 0
    phase: AnyPhase = New()
    losses: Losses = msgspec.field(default_factory=Losses)
    setup: CurrentSetup = msgspec.field(default_factory=CurrentSetup)
    workspace: WorkPlace = msgspec.field(default_factory=WorkPlace)
    gate: Gate = msgspec.field(default_factory=Gate)
    labels: Labels = msgspec.field(default_factory=Labels)
    toolset: Toolset = msgspec.field(default_factory=Toolset)
    budget: Budget = msgspec.field(default_factory=Budget)
    task: CurrentTask = msgspec.field(default_factory=CurrentTask)
    history: History = msgspec.field(default_factory=History)
    prefix: Prefix = msgspec.field(default_factory=Prefix)
    skills: Skills = msgspec.field(default_factory=Skills)
    mcp: Mcp = msgspec.field(default_factory=Mcp)
    queue: Queue = msgspec.field(default_factory=Queue)
    signals: Signals = msgspec.field(default_factory=Signals)
    timers: Timers = msgspec.field(default_factory=Timers)
    schedule: Schedule = msgspec.field(default_factory=Schedule)
    archive: Archive = msgspec.field(default_factory=Archive)
    run: Run = msgspec.field(default_factory=Run)
    turn: Turn = msgspec.field(default_factory=Turn)
    output: Output = msgspec.field(default_factory=Output)
    repeats: Repeats = msgspec.field(default_factory=Repeats)
    compaction: Compaction = msgspec.field(default_factory=Compaction)
    requests: Requests = msgspec.field(default_factory=Requests)
    calls: Calls = msgspec.field(default_factory=Calls)
    children: Children = msgspec.field(default_factory=Children)
    jobs: Jobs = msgspec.field(default_factory=Jobs)
    tree: OwnTree = msgspec.field(default_factory=OwnTree)
    grants: Grants = msgspec.field(default_factory=Grants)
    flow: Flow = msgspec.field(default_factory=Flow)
    machine: Machine = msgspec.field(default_factory=Machine)
    asks: Asks = msgspec.field(default_factory=Asks)

    @property
    def active(self) -> bool:
        """Whether a run is going on."""
        return type(self.phase) in ACTIVE

    @property
    def unattended(self) -> bool:
        """Whether nobody is asked: in autopilot, and in a child of a session in which nobody is."""
        below = self.parent_id is not None and self.setup.options.unattended
        return below or self.setup.mode == "autopilot"

    @property
    def asked(self) -> tuple[Ask, ...]:
        """What people are asked here; nothing in a session that goes on elsewhere."""
        return () if isinstance(self.phase, Left) else tuple(self.asks.open.values())

    @property
    def current_model(self) -> ModelRef:
        """The model of the current run."""
        options = self.run.options
        if options is not None and options.model is not None:
            return options.model
        return self.setup.model

    @property
    def summary_model(self) -> ModelRef:
        """The model that writes summaries."""
        return self.setup.settings.summary_model or self.current_model

    def limits_of_run(self) -> Limits:
        """The limits of the current run: its prompt's, else the session's for each run."""
        options = self.run.options
        if options is not None and options.limits is not None:
            return options.limits
        return self.budget.run_limits

    def output_required(self) -> bool:
        """Whether the final answer must fit the output schema."""
        options = self.run.options
        if options is not None and options.output_required is not None:
            return options.output_required
        return self.setup.settings.output_required

    def open_calls(self) -> list[Call]:
        """The calls without a result, in call order."""
        return [call for call in self.calls.by_id.values() if call.status != "closed"]
