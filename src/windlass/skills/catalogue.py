"""The skills that there are for a session: looked for in all places, judged, told apart, and found by name.

Of two skills of one name the one from the nearer place is taken, and the other is told of: written in code, named
folders, the workspace, the user's home, packages, checkouts, archives."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from windlass.events.skills import (
    AnySkillFailure,
    CapabilityUnavailable,
    SkillFailureUnknown,
    SkillKey,
    SkillNotFound,
    SkillNotLoaded,
    SkillNotParsed,
    SkillPlace,
    UnknownSkillAlias,
)
from windlass.events.user_folders import cache_folder, home_folder
from windlass.events.values.blocks import Value

from .archive import unpacked
from .config import Skills
from .diagnostic import Diagnostic, warning
from .folder import Unreadable
from .identity import INLINE_UUID, Source, followed, judged_sources, remaps_of, source_of
from .skill import FILE_NAMES, Skill, examined
from .trust import TrustRecords

FOLDERS_MAX = 500
SKILLS_MAX = 200
SKIPPED = (".git", "node_modules")
DEFAULT_FOLDERS = (".windlass/skills", ".agents/skills")
GROUP = "windlass.skills"
UNTRUSTED_LABEL = "untrusted:skill"


class Failed(Value, frozen=True, kw_only=True):
    """A skill or a source that could not be had: what was asked for, and why not."""

    reference: str
    reason: AnySkillFailure
    key: SkillKey | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A folder to look for skills in."""

    kind: SkillPlace
    path: str
    fingerprint: str = ""
    """What it is known by, if that is not its path."""
    package: str = ""
    version: str = ""
    within: str = ""
    """What no folder of it may lead out of by a link; empty if whoever named the place answers for its links."""


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    skills: tuple[Skill, ...] = ()
    """In the order of their names."""
    failures: tuple[Failed, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    aliases: dict[str, str] = {}
    remaps: dict[SkillKey, SkillKey] = {}
    untrusted: tuple[str, ...] = ()
    """The names of those whose text is marked untrusted."""
    changed: tuple[Skill, ...] = ()
    """Those that are others than what was trusted, and cannot be used."""
    sources: dict[str, str] = {}
    """The id of each source by its fingerprint."""

    def labels(self, name: str) -> tuple[str, ...]:
        """What the text of a skill is marked with."""
        return (UNTRUSTED_LABEL,) if name in self.untrusted else ()

    def find(self, reference: str, capabilities: Iterable[str] = ()) -> Skill | Failed:
        """The skill that a name, an alias or a key means, if the session has what it needs."""
        name = self.aliases.get(reference, reference)
        source, slash, last = name.rpartition("/")
        if slash:
            key = followed(self.remaps, SkillKey(source_uuid=source, skill_name=last))
            named_skill = next((skill for skill in self.skills if skill.key == key), None)
            missing: AnySkillFailure = SkillNotFound(key=key)
        else:
            key = None
            named_skill = next((skill for skill in self.skills if skill.name == name), None)
            missing = UnknownSkillAlias(alias=reference)
        if named_skill is None:
            known = next((failed for failed in self.failures if failed.reference == name), None)
            return known or Failed(reference=reference, reason=missing, key=key)
        lacking = next((each for each in named_skill.requires if each not in set(capabilities)), None)
        if lacking is not None:
            reason = CapabilityUnavailable(key=named_skill.key, capability=lacking)
            return Failed(reference=reference, reason=reason, key=named_skill.key)
        return named_skill


class _Search:
    """One search, with what it has found so far."""

    def __init__(self, config: Skills, records: TrustRecords) -> None:
        self.config = config
        self.records = records
        self.skills: dict[str, Skill] = {}
        self.failures: list[Failed] = []
        self.diagnostics: list[Diagnostic] = []
        self.untrusted: list[str] = []
        self.changed: list[Skill] = []

    def add(self, skill: Skill) -> None:
        """Takes a skill, unless it is not wanted, not trusted, or another one has its name."""
        why = self.config.takes(skill.name)
        if why:
            self.remark(why, f"the skill {skill.name!r} is left out", skill.location)
            return
        if skill.name in self.skills:
            taken = self.skills[skill.name].location or "one written in code"
            self.remark("skill-collision", f"the skill {skill.name!r} is left out: {taken} comes first", skill.location)
            return
        if len(self.skills) >= SKILLS_MAX:
            self.remark("skills-many", f"more than {SKILLS_MAX} skills: {skill.name!r} is left out", skill.location)
            return
        if self._trusted(skill):
            self.skills[skill.name] = skill
            self.diagnostics += skill.diagnostics

    def _trusted(self, skill: Skill) -> bool:
        if skill.place in ("inline", "package") or (skill.place == "directory" and self.config.trust == "source"):
            return True
        try:
            standing = self.records.standing(skill)
        except OSError as error:
            told = f"{skill.location}: what was trusted of it cannot be read ({error}); without that file it is new"
            self._hold_back(skill, "skill-unread", told)
            return False
        if standing == "changed" or (standing == "new" and self.config.trust == "record"):
            why = "is not what was trusted" if standing == "changed" else "is trusted by nobody yet"
            told = f"{skill.location} {why}: look at it and run 'windlass skills trust {skill.folder}'"
            self._hold_back(skill, f"skill-{standing}", told)
            return False
        if standing == "new" and skill.place in ("archive", "checkout"):
            self.untrusted.append(skill.name)
        return True

    def _hold_back(self, skill: Skill, code: str, told: str) -> None:
        self.failures.append(Failed(reference=skill.name, reason=SkillNotLoaded(message=told), key=skill.key))
        self.remark(code, told, skill.location)
        self.changed.append(skill)

    def remark(self, code: str, message: str, path: str = "", fix: str = "") -> None:
        self.diagnostics.append(warning(code, message, fix, path=path))

    def failed(self, reference: str, reason: AnySkillFailure) -> None:
        self.failures.append(Failed(reference=reference, reason=reason))


def catalogue(
    config: Skills, *, workspace: str | None = None, trusted: bool = False, records: TrustRecords | None = None
) -> Catalogue:
    """Looks for the skills of an agent. Raises nothing for what lies on disk."""
    if config.off:
        return Catalogue()
    search = _Search(config, records or TrustRecords())
    for inline in config.inline:
        search.add(inline.skill(INLINE_UUID))
    sources: list[Source] = []
    by_source: dict[str, Place] = {}
    for place in _places(config, workspace, trusted, search):
        try:
            source = source_of(place.kind, place.path)
        except Unreadable as problem:
            search.failed(place.path, SkillFailureUnknown(message=str(problem)))
            continue
        if place.fingerprint and not source.says.source_uuid:
            source = _renamed(source, place)
        sources.append(source)
        by_source[source.fingerprint] = place
    before = known_sources(search.records)
    good, wrong = judged_sources(sources, before)
    for source, reason in wrong:
        search.failed(source.fingerprint, reason)
    for source in good:
        _look(by_source[source.fingerprint], source, search)
    remaps, bad = remaps_of(good)
    for remap_failure in bad:
        search.failed("remaps", remap_failure)
    aliases = {name: target for source in reversed(good) for name, target in source.says.aliases.items()}
    return Catalogue(
        skills=tuple(sorted(search.skills.values(), key=lambda skill: skill.name)),
        failures=tuple(search.failures),
        diagnostics=tuple(search.diagnostics),
        aliases={**aliases, **config.aliases},
        remaps=remaps,
        untrusted=tuple(search.untrusted),
        changed=tuple(search.changed),
        sources={source.fingerprint: source.source_uuid for source in good},
    )


def _renamed(source: Source, place: Place) -> Source:
    """A source that is known by where its archive is, not by where that was unpacked."""
    import uuid

    from .identity import SPACE

    made = str(uuid.uuid5(SPACE, place.fingerprint))
    return msgspec.structs.replace(source, fingerprint=f"{place.fingerprint}", source_uuid=made)


def _places(config: Skills, workspace: str | None, trusted: bool, search: _Search) -> list[Place]:
    """The places to look in, nearest first."""
    places = [Place(kind="directory", path=os.path.realpath(path)) for path in config.scan]
    for place in places:
        if not os.path.isdir(place.path):
            search.failed(place.path, SkillNotLoaded(message=f"{place.path} is no folder: give one that exists"))
    if not config.skip_default_paths:
        places += _defaults(config, workspace, trusted, search)
    if config.packages:
        places += _packages(search)
    for path in config.checkouts:
        top = os.path.realpath(path)
        if not os.path.exists(os.path.join(top, ".git")):
            search.failed(path, SkillNotLoaded(message=f"{path} is no git checkout"))
            continue
        inner = os.path.join(top, "skills")
        places.append(Place(kind="checkout", path=inner if os.path.isdir(inner) else top, within=top))
    for path in config.archives:
        real = os.path.realpath(path)
        try:
            folder = unpacked(real, unpacked_folder())
        except Unreadable as problem:
            search.failed(path, SkillNotLoaded(message=f"{problem}; {problem.fix}"))
            search.remark(problem.code, str(problem), path, problem.fix)
            continue
        places.append(Place(kind="archive", path=folder, fingerprint=f"archive:{real}"))
    return [place for place in places if os.path.isdir(place.path)]


def unpacked_folder() -> str:
    """Where archives are unpacked: in the cache, which sandboxes show, unlike the state folder."""
    return os.path.join(cache_folder(), "windlass", "skills")


def _defaults(config: Skills, workspace: str | None, trusted: bool, search: _Search) -> list[Place]:
    places: list[Place] = []
    for name in DEFAULT_FOLDERS:
        path = os.path.join(workspace, name) if workspace is not None else ""
        if not path or not os.path.isdir(path):
            continue
        if trusted and config.trust_project_skills and _beneath(path, workspace or ""):
            places.append(Place(kind="project", path=os.path.realpath(path), within=workspace or ""))
        else:
            search.remark("project-untrusted", "skills of this workspace are not read: it is not trusted", path)
    home = home_folder()
    for name in DEFAULT_FOLDERS:
        path = os.path.join(home, name)
        if os.path.isdir(path) and os.path.realpath(path) not in {place.path for place in places}:
            places.append(Place(kind="user", path=os.path.realpath(path)))
    return places


def _beneath(path: str, folder: str) -> bool:
    real, whole = os.path.realpath(path), os.path.realpath(folder)
    return real == whole or real.startswith(whole.rstrip(os.sep) + os.sep)


def _packages(search: _Search) -> list[Place]:
    """The folders that installed packages offer: an entry point names a package, or a folder in it."""
    from importlib import metadata, util

    offered_places: list[Place] = []
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        module = point.value.partition(":")[0]
        inner = point.value.partition(":")[2].replace(".", "/")
        try:
            spec = util.find_spec(module)
        except (ImportError, ValueError):
            spec = None
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        path = os.path.join(places[0], inner) if places and inner else (places[0] if places else "")
        if not path or not os.path.isdir(path):
            search.failed(point.name, SkillNotLoaded(message=f"the package {module!r} has no folder of skills"))
            continue
        about = point.dist
        name, version = (about.name, about.version) if about is not None else (module, "")
        offered_places.append(Place(kind="package", path=os.path.realpath(path), package=name, version=version))
    return offered_places


def _look(place: Place, source: Source, search: _Search) -> None:
    """Takes the skills of one place: its folders that hold a SKILL.md, or the place itself if it does."""
    for folder in _folders(place.path, search):
        if place.within and not _beneath(folder, place.within):
            told = f"{folder} leads out of {place.within}: put the folder itself there"
            search.failed(os.path.basename(folder), SkillNotLoaded(message=told))
            continue
        examination = examined(folder)
        if examination.skill is None:
            told = str(examination.diagnostics[0]) if examination.diagnostics else folder
            reason = SkillNotParsed(message=told) if examination.readable else SkillNotLoaded(message=told)
            search.failed(os.path.basename(folder), reason)
            search.diagnostics += examination.diagnostics
            continue
        search.add(
            msgspec.structs.replace(
                examination.skill,
                place=place.kind,
                source_uuid=source.source_uuid,
                package=place.package,
                version=place.version,
            )
        )


def _folders(path: str, search: _Search) -> list[str]:
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        search.failed(path, SkillNotLoaded(message=f"{path}: {error.strerror}"))
        return []
    if any(name in names for name in FILE_NAMES):
        return [path]
    folders = [os.path.join(path, name) for name in names if name not in SKIPPED]
    skill_folders = [folder for folder in folders if _is_skill(folder)]
    if len(skill_folders) > FOLDERS_MAX:
        search.remark("skills-many", f"more than {FOLDERS_MAX} folders: the rest is not looked at", path)
    return skill_folders[:FOLDERS_MAX]


def _is_skill(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in FILE_NAMES)


# --- what sources called themselves -----------------------------------------------------------------------------------


def known_sources(records: TrustRecords) -> dict[str, str]:
    """The id of each source by where it is, as it was the last time."""
    try:
        with open(os.path.join(records.folder, "sources.json"), "rb") as file:
            return msgspec.json.decode(file.read(1 << 22), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def remember_sources(records: TrustRecords, skill_catalogue: Catalogue) -> None:
    """Keeps what sources call themselves. A machine that cannot keep it is not stopped by that."""
    known = known_sources(records)
    if skill_catalogue.sources.items() <= known.items():
        return
    try:
        os.makedirs(records.folder, mode=0o700, exist_ok=True)
        path = os.path.join(records.folder, "sources.json")
        with open(f"{path}.{os.getpid()}", "wb") as file:
            file.write(msgspec.json.encode({**known, **skill_catalogue.sources}))
        os.replace(f"{path}.{os.getpid()}", path)
    except OSError:
        return
