"""The skills of one session that is driven here: what was found, what the log knows of it, and how one is used."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.events.commands import PromptReceived
from windlass.events.errors import CommandTaken, Refused, StoreError
from windlass.events.skills import (
    AvailableSkill,
    FailedSkill,
    FoundSkill,
    SkillBody,
    SkillNotLoaded,
    SkillReceived,
    SkillResolved,
)
from windlass.events.values.blocks import Text
from windlass.models.tokens import estimate_text
from windlass.skills.catalogue import Catalogue, Failed, catalogue, remember_sources
from windlass.skills.config import Skills
from windlass.skills.skill import Skill, examined
from windlass.skills.trust import TrustRecords

from . import skill_text

if TYPE_CHECKING:
    from windlass.runtime.owner.owner import Owner

MENTION = re.compile(r"(?<![\w/.-])skill:([^\s:,;!?()]{1,120})")
MENTIONS_MAX = 8
FAILURES_MAX = 100
PINNED = ("directory", "user", "project")
"""Where the first use of a skill makes it the trusted one."""


class SessionSkills:
    """What a session has of skills."""

    def __init__(self, config: Skills, owner: Owner) -> None:
        self.config = config
        self.records = TrustRecords()
        self.found = Catalogue()
        self.text = ""
        """What the model is told of them, behind the agent's own instructions."""
        self._owner = owner

    async def look(self, workspace: str | None, *, trusted: bool) -> None:
        """Looks for skills, and records what is other than before."""
        self.found = await asyncio.to_thread(self._search, workspace, trusted)
        self.text = skill_text.listed(self.found.skills, by_tool=self.config.tool)
        digest = _digest(self.found) if self.found.skills or self.found.failures else ""
        if digest != self._owner.state.skills.digest:
            await self._owner.take(self._resolved(digest))

    def _search(self, workspace: str | None, trusted: bool) -> Catalogue:
        skill_catalogue = catalogue(self.config, workspace=workspace, trusted=trusted, records=self.records)
        remember_sources(self.records, skill_catalogue)
        return skill_catalogue

    def _resolved(self, digest: str) -> SkillResolved:
        available = tuple(
            AvailableSkill(key=skill.key, digest=skill.digest, place=skill.place, labels=self.found.labels(skill.name))
            for skill in self.found.skills
        )
        failed = tuple(
            FailedSkill(reference=each.reference, reason=each.reason, key=each.key)
            for each in self.found.failures[:FAILURES_MAX]
        )
        size = len(self.text.encode())
        return SkillResolved(skills=available, failed=failed, digest=digest, injection_bytes=size)

    # --- used ---

    async def filled(self, command: SkillReceived) -> SkillReceived:
        """The command with what only the host can say: which skill it means, and its text."""
        blank = msgspec.structs.replace(command, found=None, failure=None, tokens=0, bytes=0, body=None)
        if not command.active:
            return blank
        skill = self.found.find(command.skill, (*self._owner.state.toolset.tools, *self.config.capabilities))
        if isinstance(skill, Skill):
            skill = await asyncio.to_thread(self._as_it_is, skill)
        if isinstance(skill, Failed):
            return msgspec.structs.replace(blank, failure=skill.reason)
        text = skill_text.instructions(skill, command.arguments, self.config.script_timeout_ms)
        return msgspec.structs.replace(
            blank,
            found=FoundSkill(
                key=skill.key,
                digest=skill.digest,
                place=skill.place,
                path=skill.location,
                package=skill.package,
                version=skill.version,
                allowed_tools=skill.allowed_tools,
                labels=self.found.labels(skill.name),
            ),
            most=self.config.max_active,
            tokens=estimate_text(text),
            bytes=len(text.encode()),
            body=SkillBody(text=text),
        )

    def _as_it_is(self, skill: Skill) -> Skill | Failed:
        """The skill, if its files are still those that were found; the first use makes it the trusted one."""
        if not skill.folder:
            return skill
        now = examined(skill.folder).skill
        if now is None or now.digest != skill.digest:
            told = f"{skill.location} has changed since it was found: run 'windlass skills trust {skill.folder}'"
            return Failed(reference=skill.name, reason=SkillNotLoaded(message=told), key=skill.key)
        if skill.place in PINNED and self.config.trust == "first_sight":
            with contextlib.suppress(OSError):  # a machine that keeps nothing sees each skill for the first time
                if self.records.of(skill.key) is None:
                    self.records.trust(skill, by="first sight")
        return skill

    async def before_prompt(self, command: PromptReceived) -> None:
        """Activates what a prompt names (`skill:name`), and what is for the files that are attached to it."""
        body = command.body
        if body is None:
            return
        texts = [block.text for block in body.content if isinstance(block, Text)]
        named = dict.fromkeys(name.rstrip(".") for text in texts for name in MENTION.findall(text))
        for index, name in enumerate(list(named)[:MENTIONS_MAX]):
            await self._use(SkillReceived(command_id=f"{command.command_id}/skill-{index}", skill=name, via="prompt"))
        paths = [path for each in body.attachments if (path := getattr(each, "path", None))]
        await self.saw(paths, command.command_id)

    async def saw(self, paths: Iterable[str], cause: str) -> None:
        """Activates the skills that are for files which the session has to do with now."""
        seen = [path for path in paths if path]
        if not seen:
            return
        active = {skill.key.skill_name for skill in self._owner.state.skills.active.values()}
        for skill in self.found.skills:
            if skill.name not in active and any(_covers(glob, path) for glob in skill.paths for path in seen):
                await self._use(SkillReceived(command_id=f"{cause}/path-{skill.name}", skill=skill.name, via="path"))

    async def use_by_model(self, name: str, arguments: str, call_id: str, *, active: bool) -> str:
        """Activates or leaves a skill for the model; what to tell it."""
        state = self._owner.state
        command = SkillReceived(
            command_id=f"{call_id}/skill", skill=name, via="model", call_id=call_id, arguments=arguments, active=active
        )
        filled = await self.filled(command)
        try:
            await self._owner.take(filled, takes=(filled.command_id,))
        except CommandTaken:
            return f"the skill {name!r} was used by this call before"
        if filled.failure is not None:
            raise Refused("skill", f"{filled.failure}; there are {', '.join(self._names()) or 'none'}")
        if not active:
            return f"the skill {name!r} is left; its instructions do not hold any more"
        if filled.found is not None and str(filled.found.key) not in state.skills.active:
            raise Refused("skill", f"at most {self.config.max_active} skills may be active: leave one first")
        return f"the skill {name!r} is active; its instructions follow"

    def _names(self) -> list[str]:
        return [skill.name for skill in self.found.skills if not skill.hidden]

    async def _use(self, command: SkillReceived) -> None:
        filled = await self.filled(command)
        with contextlib.suppress(CommandTaken, Refused, StoreError):
            await self._owner.take(filled, takes=(filled.command_id,))


def _covers(glob: str, path: str) -> bool:
    plain = path.removeprefix("./")
    name = plain.rpartition("/")[2]
    return (
        fnmatch.fnmatchcase(plain, glob)
        or fnmatch.fnmatchcase(plain, f"*/{glob}")
        or ("/" not in glob and fnmatch.fnmatchcase(name, glob))
    )


def _digest(skill_catalogue: Catalogue) -> str:
    rows = [
        (str(skill.key), skill.digest, skill_catalogue.labels(skill.name), skill.description)
        for skill in skill_catalogue.skills
    ]
    failed = [(each.reference, str(each.reason)) for each in skill_catalogue.failures]
    return hashlib.blake2b(msgspec.json.encode((rows, failed)), digest_size=12).hexdigest()
