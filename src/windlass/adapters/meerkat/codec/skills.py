"""Skills by key, and why one could not be had. A reason that is not known is read as `unknown`, not refused."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .closed_words import Uuid, Wire

BUILTIN_SOURCE = Uuid("00000000-0000-4b11-8111-000000000001")
NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"
CAPABILITY = r"^[a-z0-9_]+(-[a-z0-9_]+)*$"
UNKNOWN = "unknown skill resolution failure"


class SkillKey(Wire, frozen=True, kw_only=True):
    """A skill's name beneath the source that it comes from."""

    source_uuid: Uuid
    skill_name: Annotated[str, msgspec.Meta(pattern=NAME)]

    def __str__(self) -> str:
        return f"{self.source_uuid}/{self.skill_name}"


class Reason(Wire, frozen=True, kw_only=True, tag_field="reason_type"):
    """Base of the reasons."""


class NotFound(Reason, frozen=True, kw_only=True, tag="not_found"):
    """No source has it."""

    key: SkillKey

    def __str__(self) -> str:
        return f"there is no skill {self.key}"


class CapabilityUnavailable(Reason, frozen=True, kw_only=True, tag="capability_unavailable"):
    """It needs something that is not there."""

    key: SkillKey
    capability: Annotated[str, msgspec.Meta(pattern=CAPABILITY)]

    def __str__(self) -> str:
        return f"skill {self.key} needs {self.capability}, which is not available"


class Load(Reason, frozen=True, kw_only=True, tag="load"):
    """It could not be read."""

    message: str

    def __str__(self) -> str:
        return f"could not load the skill: {self.message}"


class Parse(Reason, frozen=True, kw_only=True, tag="parse"):
    """It is not in the form of a skill."""

    message: str

    def __str__(self) -> str:
        return f"could not parse the skill: {self.message}"


class SourceUuidCollision(Reason, frozen=True, kw_only=True, tag="source_uuid_collision"):
    """Two sources have one id."""

    source_uuid: str
    existing_fingerprint: str
    new_fingerprint: str

    def __str__(self) -> str:
        return f"source {self.source_uuid} is both {self.existing_fingerprint!r} and {self.new_fingerprint!r}"


class SourceUuidMutation(Reason, frozen=True, kw_only=True, tag="source_uuid_mutation_without_lineage"):
    """A source has another id than before, and nothing says why."""

    fingerprint: str
    existing_source_uuid: str
    mutated_source_uuid: str

    def __str__(self) -> str:
        was, now = self.existing_source_uuid, self.mutated_source_uuid
        return f"source {self.fingerprint!r} went from {was} to {now} without a lineage"


class MissingSkillRemaps(Reason, frozen=True, kw_only=True, tag="missing_skill_remaps"):
    """A source was split or merged, and it is not said what became of each skill."""

    event_id: str
    event_kind: str

    def __str__(self) -> str:
        return f"lineage {self.event_id!r} ({self.event_kind}) does not map each skill"


class RemapWithoutLineage(Reason, frozen=True, kw_only=True, tag="remap_without_lineage"):
    """A skill is said to be another one, and no lineage joins their sources."""

    from_source_uuid: str
    from_skill_name: str
    to_source_uuid: str
    to_skill_name: str

    def __str__(self) -> str:
        was, now = f"{self.from_source_uuid}/{self.from_skill_name}", f"{self.to_source_uuid}/{self.to_skill_name}"
        return f"no lineage allows {was} to become {now}"


class UnknownSkillAlias(Reason, frozen=True, kw_only=True, tag="unknown_skill_alias"):
    """Nothing is called so."""

    alias: str

    def __str__(self) -> str:
        return f"there is no skill alias {self.alias!r}"


class RemapCycle(Reason, frozen=True, kw_only=True, tag="remap_cycle"):
    """Skills are mapped to each other in a circle."""

    source_uuid: str
    skill_name: str

    def __str__(self) -> str:
        return f"the mappings of {self.source_uuid}/{self.skill_name} go round in a circle"


class Unknown(Reason, frozen=True, kw_only=True, tag="unknown"):
    """Something else, in words."""

    message: str = msgspec.field(default_factory=str)

    def __str__(self) -> str:
        return self.message or UNKNOWN


KnownReason = (
    NotFound
    | CapabilityUnavailable
    | Load
    | Parse
    | SourceUuidCollision
    | SourceUuidMutation
    | MissingSkillRemaps
    | RemapWithoutLineage
    | UnknownSkillAlias
    | RemapCycle
)
AnyReason = KnownReason | Unknown
KNOWN: frozenset[str] = frozenset(
    str(one.__struct_config__.tag)
    for one in (
        *(NotFound, CapabilityUnavailable, Load, Parse, SourceUuidCollision, SourceUuidMutation, MissingSkillRemaps),
        *(RemapWithoutLineage, UnknownSkillAlias, RemapCycle),
    )
)


def tolerated(value: Any) -> Any:
    """A reason as it is read: one whose kind is not known, or not said, is `unknown` with its message."""
    kind = value.get("reason_type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind in KNOWN:
        return value
    message = value.get("message") if isinstance(value, dict) else None
    return {"reason_type": "unknown", "message": message if isinstance(message, str) else ""}
