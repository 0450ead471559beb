"""The view of trees: a session and those below it in one stream, each event with its scope."""

from __future__ import annotations

import json
from typing import Any

import windlass
from windlass.adapters.meerkat.codec.agent_events import TextComplete
from windlass.adapters.meerkat.codec.scopes import MemberFrame, PrimaryFrame
from windlass.adapters.meerkat.codec.wire import read_scoped_envelope
from windlass.adapters.meerkat.log_lines import TreeJsonLines
from windlass.adapters.meerkat.view.event_view import MeerkatView
from windlass.adapters.meerkat.view.fold import session_uuid
from windlass.adapters.meerkat.view.tree_view import MeerkatTreeView
from windlass.protocol.log_tail import tree
from windlass.runtime.streams.record import Record
from windlass.runtime.streams.tree_merge import Scoped
from windlass.testing.scripted import ScriptedModel, call


def agent(name: str, *replies: Any, **more: Any) -> windlass.Agent:
    return windlass.Agent(name, ScriptedModel(list(replies)), description="helps", **more)


def spawn(name: str) -> Any:
    return call("spawn", agent=name, task="do it")


async def grown() -> list[Scoped]:
    """A lead with two children of one agent, one of which has a child of its own, as a reader of the tree gets it."""
    leaf = agent("leaf", "A leaf.")
    twig = agent("twig", spawn("leaf"), "One twig.", "Another twig.", agents=[leaf])
    lead = agent("lead", spawn("twig"), spawn("twig"), "A tree.", agents=[twig])
    async with windlass.open(agents=[lead, twig, leaf]) as runtime:
        session = await runtime.session(lead, "tree")
        await session.result(await session.prompt("grow"))
        return [scoped async for scoped in tree(runtime.store, session.key)]


def path_of(*members: tuple[str, str]) -> tuple[Any, ...]:
    frames = [MemberFrame(flow_run_id=str(session_uuid(name)), agent_identity=who) for name, who in members]
    return (PrimaryFrame(session_id=str(session_uuid("tree"))), *frames)


async def test_each_event_has_the_scope_of_its_session():
    view = MeerkatTreeView("tree")
    told = [envelope for scoped in await grown() for envelope in view.feed(scoped)]
    first = ("tree~c6.0", "twig:c6.0")
    (second,) = {
        envelope.payload.scope_path[1]
        for envelope in told
        if len(envelope.payload.scope_path) == 2 and envelope.payload.scope_path != path_of(first)
    }
    assert isinstance(second, MemberFrame)
    assert second.agent_identity.startswith("twig:c"), "two children of one agent are told apart"
    leaf = ("tree~c6.0~c6.0", "leaf:c6.0")
    assert {envelope.payload.scope_path for envelope in told} == {
        path_of(),
        path_of(first),
        path_of(first, leaf),
        (*path_of(), second),
    }
    texts = [
        (envelope.payload.scope_id, envelope.payload.event.content)
        for envelope in told
        if isinstance(envelope.payload.event, TextComplete)
    ]
    assert texts == [
        ("primary/mob:twig:c6.0/mob:leaf:c6.0", "A leaf."),
        ("primary/mob:twig:c6.0", "One twig."),
        (f"primary/mob:{second.agent_identity}", "Another twig."),
        ("primary", "A tree."),
    ]


async def test_each_session_is_told_as_it_is_alone_and_the_strict_decoder_reads_all():
    scopeds = await grown()
    view = MeerkatTreeView("tree")
    told = [(scoped.session, envelope) for scoped in scopeds for envelope in view.feed(scoped)]
    for session in {scoped.session for scoped in scopeds}:
        alone = MeerkatView(session)
        records = [scoped.told for scoped in scopeds if scoped.session == session and isinstance(scoped.told, Record)]
        wanted = [envelope for record in records for envelope in alone.feed(record)]
        here = [envelope for name, envelope in told if name == session]
        assert [(one.event_id, one.seq, one.source, one.payload.event) for one in here] == [
            (one.event_id, one.seq, one.source, one.payload) for one in wanted
        ]
    lines = TreeJsonLines("tree")
    read = [read_scoped_envelope(json.loads(line)) for scoped in scopeds for line in lines.feed(scoped)]
    assert read == [envelope for _, envelope in told]
