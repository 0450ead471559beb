"""What people trust: a record for each skill, of the digest that they saw and of its texts, so that a changed one can
be shown as a diff. Kept in the user's own state folder, since it is a person's word about files of this machine."""

from __future__ import annotations

import difflib
import hashlib
import os
import tempfile
from typing import Literal

import msgspec

from windlass.events.skills import SkillKey
from windlass.events.values.blocks import Value

from .folder import Unreadable, read
from .skill import Skill

TEXT_BYTES_MAX = 64 * 1024
TEXTS_BYTES_MAX = 512 * 1024
RECORD_BYTES_MAX = 4 * 1024 * 1024
DIFF_LINES_MAX = 400
WINDLASS = "windlass"

Standing = Literal["trusted", "new", "changed"]


class Record(Value, frozen=True, kw_only=True):
    """A skill as somebody trusted it."""

    key: SkillKey
    digest: str
    files: dict[str, str] = {}
    """The digest of each file."""
    texts: dict[str, str] = {}
    """The text of each file that is one and not too long."""
    by: str = ""
    location: str = ""


def state_folder() -> str:
    """The folder beneath which records and unpacked archives are kept."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, WINDLASS, "skills")


class TrustRecords:
    """The records of one user."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or state_folder()

    def _path(self, key: SkillKey) -> str:
        name = hashlib.blake2b(str(key).encode(), digest_size=16).hexdigest()
        return os.path.join(self.folder, "trust", f"{name}.json")

    def of(self, key: SkillKey) -> Record | None:
        """The record of a skill; None if nobody has trusted it, or the record cannot be read."""
        try:
            with open(self._path(key), "rb") as file:
                found = msgspec.json.decode(file.read(RECORD_BYTES_MAX), type=Record)
        except (OSError, msgspec.MsgspecError):
            return None
        return found if found.key == key else None

    def standing(self, skill: Skill) -> Standing:
        """How a skill stands to what was trusted."""
        found = self.of(skill.key)
        if found is None:
            return "new"
        return "trusted" if found.digest == skill.digest else "changed"

    def trust(self, skill: Skill, by: str = "") -> Record:
        """Records a skill as it is now. Raises `OSError` if that cannot be written."""
        files = {file.path: file.digest for file in skill.files}
        made = Record(
            key=skill.key, digest=skill.digest, files=files, texts=texts_of(skill), by=by, location=skill.location
        )
        path = self._path(skill.key)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=os.path.dirname(path))
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(made))
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
        return made


def texts_of(skill: Skill) -> dict[str, str]:
    """The texts of a skill's files, the SKILL.md first, as far as there is room."""
    texts: dict[str, str] = {}
    room = TEXTS_BYTES_MAX
    for file in sorted(skill.files, key=lambda file: (file.path.lower() != "skill.md", file.path)):
        if file.size > min(TEXT_BYTES_MAX, room):
            continue
        try:
            data = read(skill.folder, file.path, TEXT_BYTES_MAX)
            texts[file.path] = data.decode("utf-8")
        except (Unreadable, UnicodeDecodeError):
            continue
        room -= len(data)
    return texts


def changes(record: Record | None, skill: Skill) -> list[str]:
    """What is different about a skill from what was trusted, as the lines of a diff."""
    before = record if record is not None else Record(key=skill.key, digest="")
    now = {file.path: file.digest for file in skill.files}
    texts = texts_of(skill)
    lines: list[str] = []
    for path in sorted({*before.files, *now}):
        if before.files.get(path) == now.get(path):
            continue
        old, new = before.texts.get(path), texts.get(path)
        if (path in before.files and old is None) or (path in now and new is None):
            verb = "changed" if path in before.files and path in now else ("added" if path in now else "removed")
            lines.append(f"{verb}: {path} (not shown: no text, or too long)")
            continue
        names = (path if path in before.files else "/dev/null", path if path in now else "/dev/null")
        lines += difflib.unified_diff((old or "").splitlines(), (new or "").splitlines(), *names, lineterm="")
    if len(lines) > DIFF_LINES_MAX:
        lines = [*lines[:DIFF_LINES_MAX], f"… {len(lines) - DIFF_LINES_MAX} more lines"]
    return lines
