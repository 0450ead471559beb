"""A skill: what its folder says, its files, its digest, and what is to be said of it."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from windlass.events.skills import SkillKey, SkillPlace
from windlass.events.values.blocks import Value

from .diagnostic import Diagnostic, error, warning
from .folder import SkillFile, Unreadable, digest_of, listed, read
from .format_rules import DESCRIPTION_CHARS_MAX, HARMLESS, judged, normal
from .frontmatter import Frontmatter, NotFrontmatter, frontmatter

FILE_NAMES = ("SKILL.md", "skill.md")
SKILL_BYTES_MAX = 256 * 1024
"""Of a SKILL.md; the body enters the context whole."""
OWN = "windlass."
"""What our own keys in a skill's metadata begin with."""
NO_SOURCE = "00000000-0000-0000-0000-000000000000"

TOOL = re.compile(r"[^\s(),]+(?:\([^()]*\))?")
"""One entry of allowed-tools: a name, perhaps with what it may be called with."""


class Skill(Value, frozen=True, kw_only=True):
    """A skill as it was found. `folder` is absent for one that is written in code."""

    name: str
    description: str
    instructions: str = ""
    place: SkillPlace = "directory"
    """What kind of place it comes from."""
    source_uuid: str = NO_SOURCE
    folder: str = ""
    location: str = ""
    """The path of its SKILL.md."""
    digest: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None
    """The tools that it works with; None if it does not say, and then it narrows nothing."""
    files: tuple[SkillFile, ...] = ()
    package: str = ""
    version: str = ""
    """The Python package that it comes with, and its version."""
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def key(self) -> SkillKey:
        """What it is called in logs."""
        return SkillKey(source_uuid=self.source_uuid, skill_name=self.name)

    @property
    def paths(self) -> tuple[str, ...]:
        """The globs of files whose sight activates it."""
        return tuple(self.metadata.get(f"{OWN}paths", "").split())

    @property
    def requires(self) -> tuple[str, ...]:
        """The capabilities without which it cannot be used."""
        return tuple(self.metadata.get(f"{OWN}requires", "").split())

    @property
    def hidden(self) -> bool:
        """Whether models are not told of it: people and code alone activate it."""
        return self.metadata.get(f"{OWN}hidden", "").lower() == "true"


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What came of looking at a folder: the skill if there is a usable one, and all that is to be said."""

    folder: str
    skill: Skill | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    readable: bool = True
    """Whether its SKILL.md could be read at all."""

    @property
    def valid(self) -> bool:
        """Whether it fits the format."""
        return not any(diagnostic.severity == "error" for diagnostic in self.diagnostics)


def examined(folder: str) -> Examined:
    """Looks at a folder; raises nothing for what it holds."""
    name = os.path.basename(os.path.abspath(folder))
    if not os.path.isdir(folder):
        return _none(folder, error("folder-missing", "there is no such folder", "give one that holds a SKILL.md"))
    try:
        path, text = _skill_text(folder)
        document = frontmatter(text)
    except Unreadable as problem:
        return _none(folder, error(problem.code, str(problem), problem.fix, path=problem.path, line=problem.line))
    except NotFrontmatter as problem:
        told = error(problem.code, str(problem), problem.fix, line=problem.line, path=path)
        return _none(folder, told, readable=True)
    said = judged(document, name)
    if os.path.basename(path) != FILE_NAMES[0]:
        said.append(warning("file-lowercase", "the file is called skill.md", "call it SKILL.md", line=1))
    return _whole(folder, path, document, [_at(each, path) for each in said])


def _none(folder: str, problem: Diagnostic, *, readable: bool = False) -> Examined:
    at = problem if problem.path else _at(problem, folder)
    return Examined(folder=folder, diagnostics=(at,), readable=readable)


def _at(problem: Diagnostic, path: str) -> Diagnostic:
    return msgspec.structs.replace(problem, path=path)


def _skill_text(folder: str) -> tuple[str, str]:
    there = set(os.listdir(folder)) if os.access(folder, os.R_OK) else set()
    name = next((name for name in FILE_NAMES if name in there), None)
    if name is None:
        raise Unreadable("file-missing", "there is no SKILL.md", "write one", os.path.join(folder, FILE_NAMES[0]))
    path = os.path.join(folder, name)
    try:
        data = read(folder, name, SKILL_BYTES_MAX)
    except Unreadable as problem:
        raise Unreadable(problem.code, str(problem), problem.fix, path) from None
    if len(data) > SKILL_BYTES_MAX:
        told = f"it is larger than {SKILL_BYTES_MAX >> 10} KiB"
        raise Unreadable("file-large", told, "move details into files of their own", path)
    try:
        return path, data.decode("utf-8")
    except UnicodeDecodeError as bad:
        line = data[: bad.start].count(b"\n") + 1
        told = f"byte {bad.start} is not UTF-8"
        raise Unreadable("file-encoding", told, "save it as UTF-8", path, line) from None


def _whole(folder: str, path: str, document: Frontmatter, said: list[Diagnostic]) -> Examined:
    """The skill with its files. What makes it unusable is an error that is more than form."""
    try:
        files = listed(folder)
    except Unreadable as problem:
        at = os.path.join(folder, problem.path) if problem.path else folder
        said.append(error(problem.code, str(problem), problem.fix, path=at))
        return Examined(folder=folder, diagnostics=tuple(said))
    if any(each.severity == "error" and each.code not in HARMLESS for each in said):
        return Examined(folder=folder, diagnostics=tuple(said))
    skill = skill_of(document, folder=folder, location=path, files=files, diagnostics=tuple(said))
    return Examined(folder=folder, skill=skill, diagnostics=tuple(said))


def skill_of(document: Frontmatter, **more: Any) -> Skill:
    """A skill out of a frontmatter that was judged."""
    fields = document.fields
    metadata, allowed = fields.get("metadata"), fields.get("allowed-tools")
    more.setdefault("digest", digest_of(more.get("files", ())))
    return Skill(
        name=normal(str(fields["name"])),
        description=str(fields["description"]).strip()[:DESCRIPTION_CHARS_MAX],
        instructions=document.body,
        license=_text(fields.get("license")),
        compatibility=_text(fields.get("compatibility")),
        metadata={k: v for k, v in metadata.items() if isinstance(v, str)} if isinstance(metadata, dict) else {},
        allowed_tools=allowed_of(allowed) if allowed is not None else None,
        **more,
    )


def allowed_of(given: Any) -> tuple[str, ...]:
    """The entries of allowed-tools: in one text with spaces or commas between them, or as a list."""
    texts = [str(each) for each in given if isinstance(each, str)] if isinstance(given, list) else [str(given)]
    return tuple(dict.fromkeys(entry for text in texts for entry in TOOL.findall(text)))


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
