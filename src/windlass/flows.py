"""Workflows: the functions that make their nodes, and workflows out of files."""

from windlass.events.flows import NodeFinished, NodeRetried, NodeStarted, NodeStopped
from windlass.runtime.flows.diagrams.mermaid import mermaid
from windlass.runtime.flows.diagrams.svg import svg
from windlass.runtime.flows.flow import BadFlow, Flow
from windlass.runtime.flows.flow_files import load_flow
from windlass.runtime.flows.steps import classify, gate, loop, map_over, reduce, spawn, tool, tournament, verify

__all__ = [
    "BadFlow",
    "Flow",
    "NodeFinished",
    "NodeRetried",
    "NodeStarted",
    "NodeStopped",
    "classify",
    "gate",
    "load_flow",
    "loop",
    "map_over",
    "mermaid",
    "reduce",
    "spawn",
    "svg",
    "tool",
    "tournament",
    "verify",
]
