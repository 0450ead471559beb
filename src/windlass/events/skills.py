"""Skills: instructions that a session loads when it needs them; what is available, what entered the context and left
it, and why one could not be had."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import Value

from .base import Category, Command, Decision, Fact, Nat

SkillPlace = Literal["inline", "package", "directory", "user", "project", "archive", "checkout"]
"""Where a skill comes from: written in code, shipped with a Python package, a folder that somebody named, the user's
own folder, the workspace, an archive, a git checkout."""

SkillVia = Literal["model", "user", "code", "prompt", "path"]
"""Who activated a skill: the model by its tool, a person by a command, code, a prompt that names it, or the sight of a
file that it is for."""

SkillLeft = Literal["model", "user", "code", "replaced", "rewound"]
"""Why a skill is no longer active: the model, a person or code said so, another version took its place, or the session
was rewound to before it."""


class SkillKey(Value, frozen=True, kw_only=True):
    """A skill's name beneath the source that it comes from. In text: `<source_uuid>/<skill_name>`."""

    source_uuid: str
    skill_name: str

    def __str__(self) -> str:
        return f"{self.source_uuid}/{self.skill_name}"


# --- why a skill could not be had -----------------------------------------------------------------------------------


class SkillFailure(Value, frozen=True, kw_only=True, tag_field="reason_type"):
    """Base of the reasons why a skill could not be had."""


class SkillNotFound(SkillFailure, frozen=True, kw_only=True, tag="not_found"):
    """No source has a skill of this name."""

    key: SkillKey

    def __str__(self) -> str:
        return f"no skill {self.key}"


class CapabilityUnavailable(SkillFailure, frozen=True, kw_only=True, tag="capability_unavailable"):
    """The skill needs something that the session does not have."""

    key: SkillKey
    capability: str

    def __str__(self) -> str:
        return f"skill {self.key} needs {self.capability!r}, which this session does not have"


class SkillNotLoaded(SkillFailure, frozen=True, kw_only=True, tag="load"):
    """It could not be read, or may not be: its files are others than those that were trusted."""

    message: str

    def __str__(self) -> str:
        return f"not loaded: {self.message}"


class SkillNotParsed(SkillFailure, frozen=True, kw_only=True, tag="parse"):
    """Its SKILL.md does not fit the format."""

    message: str

    def __str__(self) -> str:
        return f"not parsed: {self.message}"


class SourceUuidCollision(SkillFailure, frozen=True, kw_only=True, tag="source_uuid_collision"):
    """Two sources claim one id."""

    source_uuid: str
    existing_fingerprint: str
    new_fingerprint: str

    def __str__(self) -> str:
        return f"source {self.source_uuid} is claimed by {self.existing_fingerprint} and by {self.new_fingerprint}"


class SourceUuidMutation(SkillFailure, frozen=True, kw_only=True, tag="source_uuid_mutation_without_lineage"):
    """A source has another id than before, and nothing says how the one became the other."""

    fingerprint: str
    existing_source_uuid: str
    mutated_source_uuid: str

    def __str__(self) -> str:
        return (
            f"source {self.fingerprint} was {self.existing_source_uuid} and calls itself {self.mutated_source_uuid}, "
            "without a lineage that says so"
        )


class MissingSkillRemaps(SkillFailure, frozen=True, kw_only=True, tag="missing_skill_remaps"):
    """A source was split or merged, and it is not said what became of each skill."""

    event_id: str
    event_kind: str

    def __str__(self) -> str:
        return f"lineage {self.event_id!r} ({self.event_kind}) does not say what became of each skill"


class RemapWithoutLineage(SkillFailure, frozen=True, kw_only=True, tag="remap_without_lineage"):
    """A skill is said to be another one now, and no lineage joins their sources."""

    from_source_uuid: str
    from_skill_name: str
    to_source_uuid: str
    to_skill_name: str

    def __str__(self) -> str:
        before, now = f"{self.from_source_uuid}/{self.from_skill_name}", f"{self.to_source_uuid}/{self.to_skill_name}"
        return f"{before} is mapped to {now}, and no lineage joins their sources"


class UnknownSkillAlias(SkillFailure, frozen=True, kw_only=True, tag="unknown_skill_alias"):
    """A name that is neither a skill's nor an alias for one."""

    alias: str

    def __str__(self) -> str:
        return f"no skill is called {self.alias!r}"


class RemapCycle(SkillFailure, frozen=True, kw_only=True, tag="remap_cycle"):
    """Skills are mapped to each other in a circle."""

    source_uuid: str
    skill_name: str

    def __str__(self) -> str:
        return f"the mappings of {self.source_uuid}/{self.skill_name} lead in a circle"


class SkillFailureUnknown(SkillFailure, frozen=True, kw_only=True, tag="unknown"):
    """Something else."""

    message: str = ""

    def __str__(self) -> str:
        return self.message or "for a reason that is not known"


AnySkillFailure = (
    SkillNotFound
    | CapabilityUnavailable
    | SkillNotLoaded
    | SkillNotParsed
    | SourceUuidCollision
    | SourceUuidMutation
    | MissingSkillRemaps
    | RemapWithoutLineage
    | UnknownSkillAlias
    | RemapCycle
    | SkillFailureUnknown
)


# --- events -----------------------------------------------------------------------------------------------------------


class AvailableSkill(Value, frozen=True, kw_only=True):
    """A skill that a session can load, as its files are now."""

    key: SkillKey
    digest: str = ""
    place: SkillPlace = "directory"
    labels: tuple[str, ...] = ()
    """What its texts are marked with."""


class FailedSkill(Value, frozen=True, kw_only=True):
    """A skill, or a source of skills, that could not be had."""

    reference: str
    reason: AnySkillFailure = SkillFailureUnknown()
    key: SkillKey | None = None


class SkillResolved(Fact, frozen=True, kw_only=True, tag="skill.resolved"):
    """The skills that the session can load from here on; the model is told their names and descriptions."""

    CATEGORY: ClassVar[Category] = "mm"
    skills: tuple[AvailableSkill, ...] = ()
    failed: tuple[FailedSkill, ...] = ()
    digest: str = ""
    """Of all that was found, to tell one search from the next."""
    injection_bytes: Nat = 0
    """How much of the instructions tells of them."""


class FoundSkill(Value, frozen=True, kw_only=True):
    """A skill that is to enter the context, as it was found."""

    key: SkillKey
    digest: str = ""
    place: SkillPlace = "directory"
    path: str = ""
    """Its SKILL.md."""
    package: str = ""
    version: str = ""
    allowed_tools: tuple[str, ...] | None = None
    """The tools that calls are limited to while it is active; None if it says nothing of them."""
    labels: tuple[str, ...] = ()


class SkillBody(Value, frozen=True, kw_only=True):
    """The instructions of a skill as the model gets them."""

    text: str


class SkillReceived(Command, frozen=True, kw_only=True, tag="skill.received"):
    """Somebody wants a skill to be used, or not to be used any more. The host says what was found."""

    skill: str
    """A name, an alias, or a key as text."""
    active: bool = True
    via: SkillVia = "user"
    call_id: str | None = None
    arguments: str = ""
    found: FoundSkill | None = None
    failure: AnySkillFailure | None = None
    most: Nat = 8
    """How many may be active."""
    tokens: Nat = 0
    bytes: Nat = 0
    body: SkillBody | None = None


class SkillFailed(Decision, frozen=True, kw_only=True, tag="skill.failed"):
    """A skill could not be found, read or used."""

    CATEGORY: ClassVar[Category] = "mm"
    reference: str
    reason: AnySkillFailure
    key: SkillKey | None = None
    error: str = ""
    """The reason in words."""


class SkillActivated(Decision, frozen=True, kw_only=True, tag="skill.activated"):
    """The instructions of a skill entered the context; they stand at `text_seq`. Calls are limited to its tools."""

    CATEGORY: ClassVar[Category] = "mm"
    skill: FoundSkill
    via: SkillVia = "user"
    call_id: str | None = None
    text_seq: Nat
    tokens: Nat = 0
    bytes: Nat = 0


class SkillDeactivated(Decision, frozen=True, kw_only=True, tag="skill.deactivated"):
    """A skill left the context, and limits nothing any more."""

    CATEGORY: ClassVar[Category] = "mm"
    key: SkillKey
    digest: str = ""
    reason: SkillLeft = "user"


class SkillRestored(Decision, frozen=True, kw_only=True, tag="skill.restored"):
    """A compaction had taken the instructions of an active skill out of the context: they are in it again."""

    CATEGORY: ClassVar[Category] = "mm"
    key: SkillKey
    text_seq: Nat
