"""Skills: which of them a session has, which are active, and what that keeps calls from.

skill.resolved ──▶ available ──▶ skill.failed, for each that could not be had
skill.received ─┬─▶ skill.activated     its text enters the history, where a person or the model could read it
                ├─▶ skill.failed        it is not there, not trusted, or too many are active
                └─▶ skill.deactivated   its text leaves the history
compaction took the text of an active one ──▶ skill.restored, before the next request

While skills are active, a call must be one that each of them names, if it names tools at all. That only narrows: what
the policy denies or asks about stays so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from windlass.events.base import Decision
from windlass.events.errors import Refused
from windlass.events.skills import (
    AnySkillFailure,
    FoundSkill,
    SkillActivated,
    SkillDeactivated,
    SkillFailed,
    SkillKey,
    SkillLeft,
    SkillNotLoaded,
    SkillReceived,
    SkillResolved,
    SkillRestored,
)
from windlass.events.turns import Prepared
from windlass.events.values.setup import ItemRef
from windlass.events.values.tools import SKILL_TOOLS, ToolSpec
from windlass.kernel.part import Decisions, Part, Row
from windlass.kernel.parts import queue
from windlass.kernel.parts.context import history, prefix
from windlass.kernel.parts.tools import calls, labels, policy_rules
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.state import State


ACTIVE_MAX = 64
ELSEWHERE: dict[str, frozenset[str]] = {
    "bash": frozenset({"shell", "run_program"}),
    "read": frozenset({"read"}),
    "ls": frozenset({"list"}),
    "webfetch": frozenset({"fetch"}),
    "multiedit": frozenset({"edit"}),
}
"""What skills that were written for other agents call the built-in tools."""


class ActiveSkill(msgspec.Struct, kw_only=True, gc=False):
    """A skill whose instructions are in the context."""

    key: SkillKey
    digest: str
    seq: int
    """Where its text stands."""
    tokens: int = 0
    bytes: int = 0
    allowed_tools: tuple[str, ...] | None = None


class Skills(msgspec.Struct, kw_only=True, gc=False):
    """What the session has of skills."""

    digest: str = ""
    """Of what was found last."""
    names: tuple[str, ...] = ()
    """Those that can be loaded."""
    active: dict[str, ActiveSkill] = {}
    """By key, as text."""


# --- what is asked of it ------------------------------------------------------------------------------------------


def named(state: State, reference: str) -> ActiveSkill | None:
    """The active skill that a name or a key means."""
    skill = state.skills.active.get(reference)
    return skill or next((s for s in state.skills.active.values() if s.key.skill_name == reference), None)


def denies(state: State, spec: ToolSpec, prepared: Prepared) -> str | None:
    """Why an active skill does not let a call pass; None if all of them do."""
    if spec.runs == "kernel" or (spec.name in SKILL_TOOLS and spec.source == "builtin"):
        return None
    for skill in state.skills.active.values():
        if skill.allowed_tools is not None and not _allows(skill.allowed_tools, spec, prepared):
            tools, name = ", ".join(skill.allowed_tools) or "none", skill.key.skill_name
            return f"the active skill {name!r} works with these tools alone: {tools}; leave it to use others"
    return None


def _allows(entries: tuple[str, ...], spec: ToolSpec, prepared: Prepared) -> bool:
    return any(_names(entry, spec) and _fits(entry, prepared) for entry in entries)


def _names(entry: str, spec: ToolSpec) -> bool:
    name = entry.partition("(")[0]
    if policy_rules.matches(name, spec.name) or (
        spec.source == "builtin" and policy_rules.matches(name.lower(), spec.name)
    ):
        return True
    return spec.source == "builtin" and spec.name in ELSEWHERE.get(name.lower(), ())


def _fits(entry: str, prepared: Prepared) -> bool:
    """Whether a call is of the kind that an entry speaks of: `Bash(git:*)` of commands that begin so, `Read(src/*)` of
    paths. What is not known whole does not fit."""
    _, bracket, inner = entry.partition("(")
    pattern = inner.removesuffix(")").strip()
    if not bracket or pattern == "*":
        return True
    touched = prepared.touched
    if touched is None or not prepared.exact:
        return False
    if touched.commands:
        return all(_command_fits(pattern, command) for command in touched.commands)
    paths = (*touched.paths, *touched.writes)
    return bool(paths) and all(policy_rules.matches(pattern, path) for path in paths)


@lru_cache(maxsize=256)
def _words(pattern: str) -> tuple[str, bool]:
    return pattern.removesuffix(":*").rstrip(), pattern.endswith(":*")


def _command_fits(pattern: str, command: str) -> bool:
    first, open_ended = _words(pattern)
    return (
        command == first or (open_ended and command.startswith(f"{first} ")) or policy_rules.matches(pattern, command)
    )


def missing(state: State) -> list[ActiveSkill]:
    """The active skills whose text is not in the history any more."""
    there = {ref.seq for ref in (*state.history.items, *state.history.notes)}
    return [skill for skill in state.skills.active.values() if skill.seq not in there]


# --- fold ---------------------------------------------------------------------------------------------------------


def skill_resolved(state: State, event: SkillResolved) -> None:
    state.skills.digest = event.digest
    state.skills.names = tuple(skill.key.skill_name for skill in event.skills)
    for skill in event.skills:
        if skill.labels:
            labels.meet(state, skill.labels, f"skill {skill.key.skill_name}")


def skill_activated(state: State, event: SkillActivated) -> None:
    skill = event.skill
    state.skills.active[str(skill.key)] = ActiveSkill(
        key=skill.key,
        digest=skill.digest,
        seq=event.text_seq,
        tokens=event.tokens,
        bytes=event.bytes,
        allowed_tools=skill.allowed_tools,
    )
    _enter(state, event.text_seq, event.tokens, event.bytes)
    if skill.labels:
        labels.meet(state, skill.labels, f"skill {skill.key.skill_name}")
    if skill.allowed_tools is not None:
        calls.judge_again(state, lambda spec: ("rules",))


def _enter(state: State, seq: int, tokens: int, size: int) -> None:
    history.add(state, ItemRef(seq=seq, kind="note", tokens=tokens, bytes=size, part="skill"))


def skill_deactivated(state: State, event: SkillDeactivated) -> None:
    gone = state.skills.active.pop(str(event.key), None)
    if gone is not None and history.drop(state, gone.seq):
        prefix.differs(state, "skills")


def skill_restored(state: State, event: SkillRestored) -> None:
    skill = state.skills.active[str(event.key)]
    _enter(state, skill.seq, skill.tokens, skill.bytes)


# --- when, and what follows ---------------------------------------------------------------------------------------


def on_resolved(state: State, fact: SkillResolved) -> Decisions:
    for failed in fact.failed:
        yield _failed(failed.reference, failed.reason, failed.key)


def _failed(reference: str, reason: AnySkillFailure, key: SkillKey | None) -> SkillFailed:
    known = key if key is not None else getattr(reason, "key", None)
    return SkillFailed(reference=reference, reason=reason, key=known, error=str(reason))


def check_received(state: State, fact: SkillReceived) -> None:
    if not fact.active and named(state, fact.skill) is None:
        there = ", ".join(skill.key.skill_name for skill in state.skills.active.values()) or "none"
        raise Refused("not_active", f"no skill {fact.skill!r} is active: active are {there}")
    if fact.active and fact.failure is None and (fact.found is None or fact.body is None):
        raise Refused("no_skills", "this session has no skills: give its agent some, Agent(skills=…)")


def on_received(state: State, fact: SkillReceived) -> Decisions:
    note = ""
    if not fact.active:
        skill = named(state, fact.skill)
        if skill is not None:
            yield left(skill, fact)
    elif fact.failure is not None:
        key = fact.found.key if fact.found is not None else None
        yield _failed(fact.skill, fact.failure, key)
        note = str(fact.failure)
    elif fact.found is not None:
        note = yield from activate(state, fact, fact.found)
    yield queue.done(fact.command_id, note)


def left(skill: ActiveSkill, fact: SkillReceived) -> SkillDeactivated:
    reason: SkillLeft = "model" if fact.via == "model" else "code" if fact.via == "code" else "user"
    return SkillDeactivated(key=skill.key, digest=skill.digest, reason=reason)


def activate(state: State, fact: SkillReceived, skill: FoundSkill) -> Generator[Decision, None, str]:
    """Has a skill enter the context, in the place of another version of it; says why not, or that it is there."""
    there = state.skills.active.get(str(skill.key))
    if there is not None and there.digest == skill.digest:
        return "it is active already"
    if there is None and len(state.skills.active) >= min(fact.most, ACTIVE_MAX):
        told = f"{len(state.skills.active)} skills are active, and at most {fact.most} may be: leave one first"
        yield _failed(fact.skill, SkillNotLoaded(message=told), skill.key)
        return told
    text_seq = state.seq  # the fact itself, which has just been folded
    if there is not None:
        yield SkillDeactivated(key=there.key, digest=there.digest, reason="replaced")
    yield SkillActivated(
        skill=skill, via=fact.via, call_id=fact.call_id, text_seq=text_seq, tokens=fact.tokens, bytes=fact.bytes
    )
    return ""


def rewound(state: State, to_seq: int) -> Decisions:
    """A rewind takes back what was activated behind its point."""
    for skill in [skill for skill in state.skills.active.values() if skill.seq > to_seq]:
        yield SkillDeactivated(key=skill.key, digest=skill.digest, reason="rewound")


def restore(state: State) -> Decisions:
    """Puts the text of active skills before the model again, if a compaction took it away."""
    if state.skills.active:
        for skill in missing(state):
            yield SkillRestored(key=skill.key, text_seq=skill.seq)


def needs(state: State) -> Iterator[int]:
    for skill in state.skills.active.values():
        yield skill.seq


PART = Part(
    name="skills",
    facts={
        SkillResolved: Row(when=STARTED, fold=skill_resolved, then=on_resolved),
        SkillReceived: Row(when=STARTED, check=check_received, then=on_received),
    },
    decisions={
        SkillFailed: None,
        SkillActivated: skill_activated,
        SkillDeactivated: skill_deactivated,
        SkillRestored: skill_restored,
    },
    needs=needs,
)
