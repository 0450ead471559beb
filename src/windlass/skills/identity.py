"""Who a source of skills is: an id that stays, what it was before (lineage), and what became of each of its skills
(remaps).

A source may say so in a file `skills.json` at its top; without one its id follows from where it is. What a source
called itself the last time is remembered, so that another id without a lineage is noticed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from typing import Literal

import msgspec

from windlass.events import known_types
from windlass.events.skills import (
    AnySkillFailure,
    MissingSkillRemaps,
    RemapCycle,
    RemapWithoutLineage,
    SkillKey,
    SourceUuidCollision,
    SourceUuidMutation,
)
from windlass.events.values.blocks import Value

from .folder import Unreadable, read

FILE = "skills.json"
FILE_BYTES_MAX = 256 * 1024
ROWS_MAX = 1_000
SPACE = uuid.UUID("7d1f4f3e-52f6-5c1a-9c55-3a6c1b1e7a10")
INLINE_UUID = "00000000-0000-4b11-8111-000000000001"
"""The source of skills that are written in code."""


class Lineage(Value, frozen=True, kw_only=True):
    """How sources became other ones."""

    event_id: str
    kind: Literal["rename_or_relocate", "rotate", "split", "merge"]
    sources: tuple[str, ...]
    """The ids before."""
    targets: tuple[str, ...]
    """The ids after."""


class Remap(Value, frozen=True, kw_only=True):
    """A skill that is another one now."""

    source: SkillKey
    target: SkillKey


class SourceFile(Value, frozen=True, kw_only=True):
    """What a source says of itself."""

    source_uuid: str = ""
    lineage: tuple[Lineage, ...] = ()
    remaps: tuple[Remap, ...] = ()
    aliases: dict[str, str] = {}


class Source(Value, frozen=True, kw_only=True):
    """A place that skills come from, with who it is."""

    source_uuid: str
    fingerprint: str
    """Where it is: what kind of place, and its path."""
    says: SourceFile = SourceFile()


def source_of(kind: str, path: str) -> Source:
    """Who a place is. Raises `Unreadable` for a `skills.json` that is none."""
    fingerprint = f"{kind}:{path}"
    says = SourceFile()
    if os.path.lexists(os.path.join(path, FILE)):
        data = read(path, FILE, FILE_BYTES_MAX)
        try:
            says = known_types.decode(data[: FILE_BYTES_MAX + 1], SourceFile)
        except (msgspec.MsgspecError, RecursionError) as error:
            at = os.path.join(path, FILE)
            raise Unreadable("source-file", f"{at}: {error}", "see the fields of a source's skills.json", at) from None
        if len(says.lineage) + len(says.remaps) + len(says.aliases) > ROWS_MAX:
            told = f"more than {ROWS_MAX} rows"
            raise Unreadable("source-file", told, "keep fewer", os.path.join(path, FILE))
    return Source(
        source_uuid=says.source_uuid or str(uuid.uuid5(SPACE, fingerprint)), fingerprint=fingerprint, says=says
    )


def judged_sources(
    sources: Iterable[Source], before: dict[str, str]
) -> tuple[list[Source], list[tuple[Source, AnySkillFailure]]]:
    """The sources whose ids hold, and why the others do not. `before` has the id of each fingerprint that was seen."""
    taken: dict[str, Source] = {}
    wrong: list[tuple[Source, AnySkillFailure]] = []
    for source in sources:
        other = taken.get(source.source_uuid)
        known = before.get(source.fingerprint, source.source_uuid)
        if other is not None:
            collision = SourceUuidCollision(
                source_uuid=source.source_uuid,
                existing_fingerprint=other.fingerprint,
                new_fingerprint=source.fingerprint,
            )
            wrong.append((source, collision))
        elif known != source.source_uuid and not _joined(source.says.lineage, known, source.source_uuid):
            mutation = SourceUuidMutation(
                fingerprint=source.fingerprint, existing_source_uuid=known, mutated_source_uuid=source.source_uuid
            )
            wrong.append((source, mutation))
        else:
            taken[source.source_uuid] = source
    return list(taken.values()), wrong


def _joined(lineage: Iterable[Lineage], before: str, now: str) -> bool:
    return any(before in each.sources and now in each.targets for each in lineage)


def remaps_of(sources: Iterable[Source]) -> tuple[dict[SkillKey, SkillKey], list[AnySkillFailure]]:
    """What became of skills, as all sources say together, and what is wrong with that."""
    sources = list(sources)
    lineage = [each for source in sources for each in source.says.lineage]
    rows = [each for source in sources for each in source.says.remaps]
    remaps: dict[SkillKey, SkillKey] = {}
    wrong: list[AnySkillFailure] = []
    for row in rows:
        same = row.source.source_uuid == row.target.source_uuid
        if same or _joined(lineage, row.source.source_uuid, row.target.source_uuid):
            remaps.setdefault(row.source, row.target)
        else:
            wrong.append(
                RemapWithoutLineage(
                    from_source_uuid=row.source.source_uuid,
                    from_skill_name=row.source.skill_name,
                    to_source_uuid=row.target.source_uuid,
                    to_skill_name=row.target.skill_name,
                )
            )
    covered = {key.source_uuid for key in remaps}
    for event in lineage:
        if event.kind in ("split", "merge") and not set(event.sources) <= covered:
            wrong.append(MissingSkillRemaps(event_id=event.event_id, event_kind=event.kind))
    for key in _circular(remaps):
        wrong.append(RemapCycle(source_uuid=key.source_uuid, skill_name=key.skill_name))
        del remaps[key]
    return remaps, wrong


def _circular(remaps: dict[SkillKey, SkillKey]) -> list[SkillKey]:
    """The skills whose way through the remaps comes back to a place where it was."""
    bad: list[SkillKey] = []
    for start in remaps:
        seen, at = {start}, remaps[start]
        while at in remaps and at not in seen:
            seen.add(at)
            at = remaps[at]
        if at in seen:
            bad.append(start)
    return bad


def followed(remaps: dict[SkillKey, SkillKey], key: SkillKey) -> SkillKey:
    """The skill that a key means now."""
    while key in remaps:
        key = remaps[key]
    return key
