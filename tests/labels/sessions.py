"""Sessions whose tools bring the three legs: untrusted input, private data, a way out. No runtime, no clock."""

from __future__ import annotations

from typing import Any

from tests.kernel.session import TOOLS, Session, call
from windlass.events.tools.labels import LabelsDeclassified
from windlass.events.turns import Prepared
from windlass.events.values.tools import ToolSpec
from windlass.kernel.effects import PrepareCall
from windlass.kernel.parts.tools import labels

LEGS = {"untrusted": "surf", "private": "files", "egress": "send"}
"""The tool that brings each leg."""

MARKED = (
    ToolSpec(name="surf", digest="d-surf", contract="pure", traits=("read",), labels=("untrusted:web",)),
    ToolSpec(name="files", digest="d-files", contract="pure", traits=("read",), labels=("private",)),
    ToolSpec(name="send", digest="d-send", traits=("egress",)),
    ToolSpec(name="fetch", digest="d-fetch", traits=("read", "egress"), labels=("untrusted:web",)),
    ToolSpec(name="upload", digest="d-upload", traits=("read", "egress"), labels=("private:home",)),
    ToolSpec(name="shell", digest="d-shell", traits=("read", "execute", "egress"), kind="shell"),
    ToolSpec(name="mcp_search", digest="d-mcp", contract="pure", traits=("read",), kind="mcp"),
)


def marked(**changes: Any) -> Session:
    """A session with the tools above, and a run under way."""
    session = Session(tools=(*MARKED, *TOOLS), **changes)
    session.prompt()
    return session


def do(session: Session, *tools: str, **finished: Any) -> list[Any]:
    """The model calls tools, each in a turn of its own, and each that may run gives its result. The last append of the
    last one."""
    events: list[Any] = []
    for tool in tools:
        events = session.reply("", call(tool, {"n": session.state.seq}))
        while (running := session.running()) or prepare(session):
            for name in running:
                events = session.finish(name, **finished)
    return events


def prepare(session: Session, **more: Any) -> list[Any]:
    """The host looks at the calls that are to be judged again, and finds them as they were."""
    found: list[Any] = []
    for effect in session.owed():
        if isinstance(effect, PrepareCall):
            there = session.state.calls.by_id[effect.call_id]
            known = Prepared(digest=there.digest, labels=there.labels, traits=there.traits)
            found += session.prepare(
                effect.call_id, **({"digest": known.digest, "labels": known.labels, "traits": known.traits} | more)
            )
    return found


def declassify(session: Session, *names: str, reason: str = "seen and harmless") -> list[Any]:
    return session.take(LabelsDeclassified(command_id=session.command(), actor="ada", labels=names, reason=reason))


def held(session: Session) -> frozenset[str]:
    """What it carries, which must be the same live and folded from its log."""
    now = labels.current(session.state)
    assert labels.current(session.folded()) == now
    return now


def open_asks(session: Session) -> list[str]:
    return [ask.tool for ask in session.state.asks.open.values()]
