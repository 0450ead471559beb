"""Workflows: the functions that make their nodes, and workflows out of files."""

from windlass.events.trees.flows import NodeFinished, NodeRetried, NodeStarted, NodeStopped
from windlass.events.trees.growth import MilestoneAdvanced, MilestoneBlocked, NodesAdded
from windlass.runtime.api.flows import FlowResult, FlowRun, NodeView
from windlass.runtime.flows.diagrams.mermaid import mermaid
from windlass.runtime.flows.diagrams.svg import svg
from windlass.runtime.flows.flow import BadFlow, Flow
from windlass.runtime.flows.flow_files import load_flow
from windlass.runtime.flows.steps import classify, gate, loop, map_over, phase, reduce, spawn, tool, tournament, verify

__all__ = [
    "BadFlow",
    "Flow",
    "FlowResult",
    "FlowRun",
    "MilestoneAdvanced",
    "MilestoneBlocked",
    "NodeFinished",
    "NodeRetried",
    "NodeStarted",
    "NodeStopped",
    "NodeView",
    "NodesAdded",
    "classify",
    "gate",
    "load_flow",
    "loop",
    "map_over",
    "mermaid",
    "phase",
    "reduce",
    "spawn",
    "svg",
    "tool",
    "tournament",
    "verify",
]
