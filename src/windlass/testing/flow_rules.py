"""What must hold for a workflow, held against every event of its log. Written from the promises: it keeps its own count
of nodes, and asks the kernel nothing."""

from __future__ import annotations

from collections.abc import Callable

from windlass.events.base import Event
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolRequested
from windlass.events.trees.children import ChildStarted
from windlass.events.trees.flows import NodeFinished, NodeStarted
from windlass.events.trees.growth import NodesAdded, NodesReceived

Hold = Callable[[str, bool, str], None]


class FlowRules:
    """Follows the graph of one workflow; holds nothing against any other session."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self.nodes: set[str] = set()
        self.quarantined: set[str] = set()
        self.most = 0
        """How many nodes it may grow to."""
        self.at_once = 0
        self.given: tuple[str, ...] = ()
        """What was to be added last."""
        self.left_out: set[str] = set()
        self.calls: dict[str, str] = {}
        """The node that each call belongs to."""

    def feed(self, event: Event, seq: int) -> None:
        """Takes the next event, which has this number."""
        match event:
            case SessionStarted() if event.setup.flow is not None:
                given = event.setup.flow.nodes
                self.nodes = {node.name for node in given}
                self.quarantined = {node.name for node in given if node.quarantine}
                self.most, self.at_once = event.setup.settings.nodes_max, event.setup.settings.nodes_added_max
            case NodesReceived():
                self.given = tuple(node.name for node in event.nodes)
                self.quarantined |= {node.name for node in event.nodes if node.quarantine}
                new = not self.nodes & set(self.given)
                self._hold("a node is added once", new, str(self.given))
                self.nodes |= set(self.given)
                within = len(self.nodes) <= self.most and len(self.given) <= self.at_once
                self._hold("a workflow grows within its quota", within, f"{len(self.nodes)} of {self.most}")
            case NodesAdded():
                self._hold("what is added was given", event.names == self.given, str(event.names))
                inherits = event.quarantine or event.node not in self.quarantined
                self._hold("a quarantine is inherited", inherits, f"{event.names} by {event.node}")
                self.quarantined |= set(event.names) if event.quarantine else set()
            case NodeStarted():
                self._hold("a node at work is one of the graph", event.node in self.nodes, event.node)
                self._hold("what is left out never runs", event.node not in self.left_out, event.node)
            case NodeFinished():
                kept = event.status != "done" or (event.output_seq is not None and 0 < event.output_seq < seq)
                self._hold("no output is lost", kept, f"{event.node}: {event.output_seq}")
                self.left_out |= {event.node} if event.status == "pruned" else set()
            case ToolRequested() if event.node:
                self.calls[event.call_id] = event.node
            case ChildStarted():
                reads = event.quarantine or self.calls.get(event.call_id) not in self.quarantined
                self._hold("a quarantine is inherited", reads, f"{event.child_id}")
            case _:
                pass
