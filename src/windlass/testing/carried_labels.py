"""What a session carries on, counted from its events alone: written from the promises, not from the kernel's code.

A simulator and property tests hold it against the state that the kernel folds. It says as well whether a call began
that brought untrusted input, private data and a way out together without a person's word.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.events.base import Event
from windlass.events.changes import PolicyChanged
from windlass.events.commands import PromptReceived, QueueChanged
from windlass.events.context import ContextPagedIn
from windlass.events.sessions import SessionImported, SessionResumed, SessionStarted
from windlass.events.signals import SignalReceived
from windlass.events.tools.calls import (
    ResultReceived,
    ToolAllowed,
    ToolDelegated,
    ToolFinished,
    ToolPrepared,
    ToolReconsidered,
    ToolRequested,
    ToolStarted,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobFinished, JobStarted
from windlass.events.tools.labels import LabelsDeclassified, LabelsJoined
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.turns import TurnStarted
from windlass.events.values.policy import Policy, Trait
from windlass.events.values.tools import ToolSpec

RESULTS = (ToolFinished, ToolTimedOut, ToolSuspended, ResultReceived, ChildFinished, JobStarted)
BEGUN = (ToolStarted, ToolDelegated, ChildStarted)


class Carried:
    """Follows one log."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.told: set[str] = set()
        """What the log says that it carries."""
        self.unagreed: list[str] = []
        """Calls that led out of a session that had seen both untrusted and private things, with nobody's word."""
        self._gone: set[str] = set()
        self._seq = 0
        self._policy = Policy()
        self._tools: dict[str, ToolSpec] = {}
        self._calls: dict[str, str] = {}
        self._about: dict[str, tuple[tuple[str, ...], tuple[Trait, ...] | None]] = {}
        self._word: dict[str, str] = {}
        self._jobs: dict[str, set[str]] = {}
        self._prompts: dict[int, tuple[str, ...]] = {}

    def feed(self, event: Event) -> None:
        """Takes one event, in the order of the log."""
        self._seq += 1
        match event:
            case SessionStarted():
                self._policy = event.setup.policy
                self._tools = {spec.name: spec for spec in event.setup.tools}
                alone = event.setup.quarantine or event.setup.options.quarantine
                self.held.update(event.labels, ("untrusted:quarantine",) if alone else ())
            case SessionResumed() if event.options is not None and event.options.quarantine:
                self.held.add("untrusted:quarantine")
            case SessionImported(moved=False):
                self.held |= {*self._gone, "untrusted:import"}
                self._gone = set()
            case PolicyChanged():
                self._policy = event.policy
            case ToolsetChanged(phase="applied" | "forced"):
                self._tools |= {spec.name: spec for spec in event.tools}
            case LabelsDeclassified():
                self.held.difference_update(event.labels)
                self.told.difference_update(event.labels)
                self._gone.update(event.labels)
            case LabelsJoined():
                self.told.update(provenance.label for provenance in event.labels)
            case PromptReceived():
                self._prompts[self._seq] = event.labels
            case TurnStarted():
                self._read(event.absorbs)
            case QueueChanged(operation="absorbed"):
                self._read(int(name[1:]) for name in event.prompt_ids)
            case SignalReceived() | ContextPagedIn():
                self.held.update(event.labels)
            case _:
                self._of_call(event)

    def _of_call(self, event: Event) -> None:
        if isinstance(event, ToolRequested):
            self._calls[event.call_id] = event.tool
            self._about[event.call_id] = (event.labels, event.traits)
        elif isinstance(event, ToolPrepared):
            self._about[event.call_id] = (event.labels, event.traits)
        elif isinstance(event, ToolAllowed):
            self._word[event.call_id] = event.by if event.joins else ""
        elif isinstance(event, ToolReconsidered):
            self._word.pop(event.call_id, None)
        elif isinstance(event, RESULTS):
            self.held.update(event.labels)
            if isinstance(event, JobStarted):
                self._jobs[event.job_id] = {*event.labels, *self._brought(event.call_id)}
        elif isinstance(event, JobFinished):
            self.held |= self._jobs.pop(event.job_id)
        elif isinstance(event, BEGUN):
            self._begun(event.call_id)

    def _begun(self, call_id: str) -> None:
        spec, (_, traits) = self._tools[self._calls[call_id]], self._about[call_id]
        self.held |= self._brought(call_id)
        words = {label.partition(":")[0] for label in self.held}
        leads_out = "egress" in (spec.traits if traits is None else traits)
        agreed = self._word.get(call_id) in ("person", "grant") or self._policy.trifecta == "allow"
        if leads_out and {"untrusted", "private"} <= words and not agreed:
            self.unagreed.append(call_id)

    def _brought(self, call_id: str) -> set[str]:
        spec, (by_call, _) = self._tools[self._calls[call_id]], self._about[call_id]
        return {*spec.labels, *by_call, *(("untrusted:mcp",) if spec.kind == "mcp" else ())}

    def _read(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            self.held.update(self._prompts.pop(seq, ()))
