"""Which skills an agent has: where they are looked for, which of them are taken, and how they may be used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.values.blocks import Value

from .format_rules import judged
from .frontmatter import Frontmatter, Plain
from .skill import Skill, skill_of

MAX_ACTIVE = 8
"""How many skills are active at the same time unless it is said otherwise."""
SCRIPT_TIMEOUT_MS = 60_000

Trust = Literal["first_sight", "record", "source"]
"""What a skill of a folder needs: nothing the first time, and from then on to be what it was; a record that a person
trusts it; or nothing ever, since the folder is as good as the code that names it."""


class InlineSkill(Value, frozen=True, kw_only=True):
    """A skill that is written in code: it has instructions and no files."""

    name: str
    description: str
    instructions: str = ""
    license: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None

    def skill(self, source_uuid: str) -> Skill:
        """The skill. Raises `UsageError` for one that does not fit the format."""
        from hashlib import blake2b

        fields: dict[str, Plain] = {"name": self.name, "description": self.description, "metadata": dict(self.metadata)}
        document = Frontmatter(fields=fields, lines={}, body=self.instructions)
        wrong = [each for each in judged(document, self.name) if each.severity == "error"]
        if wrong:
            raise UsageError(f"inline skill {self.name!r}: {wrong[0].message}: {wrong[0].fix}")
        digest = blake2b(msgspec.json.encode(self, order="deterministic"), digest_size=16).hexdigest()
        made = skill_of(document, place="inline", source_uuid=source_uuid, digest=digest)
        return msgspec.structs.replace(made, allowed_tools=self.allowed_tools, license=self.license)


class Skills(Value, frozen=True, kw_only=True):
    """The skills of an agent."""

    scan: tuple[str, ...] = ()
    """Folders whose folders are skills, or that are skills themselves; before the default ones."""
    archives: tuple[str, ...] = ()
    """Archives of skills on disk: .zip, .tar, .tar.gz. They are unpacked within bounds."""
    checkouts: tuple[str, ...] = ()
    """Git checkouts on disk that hold skills, at their top or beneath `skills`."""
    packages: bool = False
    """Whether Python packages that offer skills (entry points in the group `windlass.skills`) are asked."""
    inline: tuple[InlineSkill, ...] = ()
    """Skills that are written in code."""
    enabled: bool | tuple[str, ...] = True
    """Whether there are skills at all; or only those of these names."""
    include: tuple[str, ...] = ("*",)
    """Globs of the names that are taken."""
    exclude: tuple[str, ...] = ()
    """Globs of the names that are not."""
    disabled: tuple[str, ...] = ()
    """Names of skills that are known and not offered."""
    skip_default_paths: bool = False
    """Whether the default folders are left out: `.windlass/skills` and `.agents/skills` of a trusted workspace, and the
    same beneath the user's home."""
    tool: bool = True
    """Whether the model gets the tools `skill` and `skill_file`."""
    max_active: int = MAX_ACTIVE
    """How many are active at the same time; one more is refused."""
    script_timeout_ms: int = SCRIPT_TIMEOUT_MS
    """How long the model is told to let a script of a skill run."""
    trust_project_skills: bool = True
    """Whether skills of a trusted workspace are taken; those of another one never are."""
    trust: Trust = "first_sight"
    """What skills of folders need before they are used."""
    aliases: dict[str, str] = {}
    """Other names for skills: a name, or `source_uuid/name`."""
    capabilities: tuple[str, ...] = ()
    """What skills may require beside the names of the session's tools."""

    @property
    def off(self) -> bool:
        """Whether there is nothing to look for."""
        return self.enabled is False or self.enabled == ()

    def takes(self, name: str) -> str:
        """Why a skill of some name is not taken; empty if it is."""
        from fnmatch import fnmatchcase

        if self.enabled is not True and name not in (self.enabled or ()):
            return "skill-not-enabled"
        if name in self.disabled:
            return "skill-disabled"
        if not any(fnmatchcase(name, glob) for glob in self.include):
            return "skill-not-included"
        return "skill-excluded" if any(fnmatchcase(name, glob) for glob in self.exclude) else ""


def skills_of(given: Any) -> Skills | None:
    """The skills that an agent is given: none, those of the default folders (True), a folder, several, or `Skills`.
    Raises `UsageError` for anything else."""
    if given is None or given is False:
        return None
    if isinstance(given, Skills):
        return _checked(given)
    if given is True:
        return Skills()
    if isinstance(given, str | os.PathLike):
        given = (given,)
    if isinstance(given, Sequence) and all(isinstance(each, str | os.PathLike | InlineSkill) for each in given):
        folders = tuple(os.fspath(each) for each in given if not isinstance(each, InlineSkill))
        inline = tuple(each for each in given if isinstance(each, InlineSkill))
        return _checked(Skills(scan=folders, inline=inline, skip_default_paths=True))
    raise UsageError(f"skills={given!r}: give a folder, several, or Skills(…)")


def _checked(skills: Skills) -> Skills:
    try:
        checked_skills = known_types.convert(msgspec.to_builtins(skills), Skills)
    except msgspec.ValidationError as error:
        raise UsageError(f"skills: {error}") from None
    if checked_skills.max_active < 1 or checked_skills.script_timeout_ms < 1:
        raise UsageError("skills: max_active and script_timeout_ms are at least 1")
    return checked_skills
