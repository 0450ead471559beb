"""What must be true of a session whose process died again and again, compared with one that lived."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

from windlass.events.base import Command, Event
from windlass.events.errors import NotFound
from windlass.events.stored import codec
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import ToolDenied, ToolFinished, ToolOutcomeUnknown, ToolRequested, ToolStarted
from windlass.events.tools.permissions import PermissionApproved, PermissionRequested
from windlass.events.turns import ModelAsked, ModelReplied, ModelRequested
from windlass.events.values.blocks import Text, plain_text
from windlass.events.values.items import AssistantItem, CallPart, ResultItem, UserItem
from windlass.kernel import log
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.store import Key, history, open_store
from windlass.testing.invariants import Checker, check_items
from windlass.testing.kill_rig import Acks

UNKNOWN = "unknown"
ONCE = ("pay", "ask_first", "think_once")
"""Tools that must not run twice."""


class Story:
    """What is left of one session: its log, and what the world saw."""

    def __init__(self, session: str, lines: list[bytes], witness: list[str]) -> None:
        self.session = session
        self.lines = lines
        self.seen = [line.split(" ") for line in witness]
        self.events: list[Event] = []
        self.state = State()
        checker = Checker()
        for line in lines:
            append = codec.decode(line)
            log.fold_append(self.state, append)
            for event in append.events:
                assert isinstance(event, Event)
                self.events.append(event)
                checker.feed(event)
            checker.rest(self.state)
        self.items = render(self.state, lambda seq: self.events[seq - 1])
        check_items(self.items)

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    def said(self, word: str) -> list[list[str]]:
        return [line[1:] for line in self.seen if line[0] == word]

    def transcript(self) -> list[str]:
        """The visible conversation in words; an outcome that nobody knows is one word."""
        found = []
        for item in self.items:
            match item:
                case UserItem():
                    found.append("user: " + plain_text(item.content))
                case AssistantItem():
                    calls = [f"{part.tool}{part.args}" for part in item.content if isinstance(part, CallPart)]
                    text = "".join(part.text for part in item.content if isinstance(part, Text))
                    found.append("model: " + text + " ".join(calls))
                case ResultItem():
                    text = plain_text(item.content)
                    found.append("result: " + (UNKNOWN if UNKNOWN in text else text))
        return found


def read(place: str, session: str = "s") -> Story:
    """The story of a session, from its store. The store verifies at every level."""

    async def lines() -> list[bytes]:
        store = await open_store(os.path.join(place, "work.db"))
        try:
            return [sealed.data async for sealed in history(store, Key("default", session))]
        finally:
            await store.close()

    found = asyncio.run(lines())
    if session == "s":
        report = log.verify(found)
        assert report.problems == [], report.problems
    return Story(session, found, Acks.read(os.path.join(place, "witness")))


def check_cut(place: str) -> None:
    """What must hold right after a death: the log is sound as far as it goes, what was acknowledged is in it, and it
    would make a legal request."""
    try:
        story = read(place)
    except NotFound:
        # It died before there was a session, and so before anything could be promised.
        assert Acks.read(os.path.join(place, "witness")) == []
        return
    acknowledged_is_kept(story)


def check(story: Story, calm: Story, kills: int) -> None:
    """Compares a story of many deaths with a calm one."""
    same_transcript(story, calm)
    effects_by_contract(story)
    nothing_paid_twice(story, kills)
    answered_once(story)
    acknowledged_is_kept(story)
    approvals_once(story)


def same_transcript(story: Story, calm: Story) -> None:
    ours, theirs = story.transcript(), calm.transcript()
    assert len(ours) == len(theirs), f"{ours} instead of {theirs}"
    for mine, expected in zip(ours, theirs, strict=True):
        uncertain = mine == f"result: {UNKNOWN}" and any(tool in expected for tool in ONCE)
        assert mine == expected or uncertain, f"{mine!r} instead of {expected!r}"
    assert story.count(TimerFired) == calm.count(TimerFired)


def effects_by_contract(story: Story) -> None:
    """At most once never twice; the same key each time; a finished call never again; an unknown outcome only where
    a process died under a call that must not run twice."""
    tools = {event.call_id: event.tool for event in story.events if isinstance(event, ToolRequested)}
    starts = Counter(tools[event.call_id] for event in story.events if isinstance(event, ToolStarted))
    effects: dict[tuple[str, str], list[list[str]]] = {}
    for tool, name, key, attempt in story.said("effect"):
        effects.setdefault((tool, name), []).append([key, attempt])
    for (tool, name), done in effects.items():
        assert len({key for key, _ in done}) == 1, f"{tool} {name} ran under several keys"
        attempts = [attempt for _, attempt in done]
        assert len(attempts) == len(set(attempts)), f"{tool} {name} ran twice in one attempt"
        if tool in ONCE:
            assert len(done) == 1, f"{tool} {name} ran {len(done)} times"
    by_tool = Counter(tool for tool, _, _, _ in story.said("effect"))
    for tool, count in by_tool.items():
        assert count <= starts[tool], f"{tool} had {count} effects and {starts[tool]} intents"
    for event in story.events:
        if isinstance(event, ToolFinished) and event.ok and tools[event.call_id] != "wait":
            assert by_tool[tools[event.call_id]] >= 1
        if isinstance(event, ToolOutcomeUnknown):
            assert tools[event.call_id] in ONCE


def nothing_paid_twice(story: Story, kills: int) -> None:
    """Requests that went out: no more than replies that are in the log and those in flight at a kill; each of them an
    intent of its own."""
    sent = [line[1:] for line in story.said("request") if line[0] == story.session]
    replies = story.count(ModelReplied)
    # Two tools may have a question of their own out when the process dies; the conversation has one request at a time.
    most = kills * (2 if story.count(ModelAsked) else 1)
    assert len(sent) <= replies + most, f"{len(sent)} requests for {replies} replies and {kills} kills"
    assert len({tuple(line) for line in sent}) == len(sent), f"one intent was sent twice: {sent}"
    assert len(sent) <= story.count(ModelRequested)


def answered_once(story: Story) -> None:
    """What a tool was told by a model is kept for the attempt that runs again: no question is paid for twice."""
    asked = {event.asked_seq: event.request_id for event in story.events if isinstance(event, ModelRequested)}
    replied = {event.request_id for event in story.events if isinstance(event, ModelReplied)}
    answers = Counter(
        event.body.prompt
        for seq, event in enumerate(story.events, start=1)
        if isinstance(event, ModelAsked) and event.body is not None and asked[seq] in replied
    )
    assert not answers or max(answers.values()) == 1, answers


def acknowledged_is_kept(story: Story) -> None:
    taken = Counter(event.command_id for event in story.events if isinstance(event, Command))
    for (command,) in story.said("acked"):
        if command != "b1":
            assert taken[command] == 1, f"{command} was acknowledged and is in the log {taken[command]} times"


def approvals_once(story: Story) -> None:
    assert story.count(PermissionRequested) == story.count(PermissionApproved) <= 1
    assert story.count(ToolDenied) == 0


def check_fork(story: Story) -> None:
    """Both or neither: a fork that is there has all of its origin's past, and its own end."""
    transcript: Any = story.transcript()
    assert transcript[-2:] == ["user: and now", "model: in the fork"], transcript
    assert transcript[0] == "user: please p1"
