"""What people trust: a record for each skill, of the digest that they saw and of its texts, so that a changed one can
be shown as a diff. Kept in the user's own state folder, since it is a person's word about files of this machine."""

from __future__ import annotations

import difflib
import errno
import hashlib
import os
import tempfile
from typing import Literal

import msgspec

from windlass.events import known_types, user_folders
from windlass.events.skills import SkillKey
from windlass.events.values.blocks import Value

from .folder import Unreadable, read
from .skill import Skill

TEXT_BYTES_MAX = 64 * 1024
TEXTS_BYTES_MAX = 512 * 1024
RECORD_BYTES_MAX = 4 * 1024 * 1024
UNSHOWN = "it differs in what no line shows: the ends of its lines"
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
    return os.path.join(user_folders.state_folder(), WINDLASS, "skills")


class TrustRecords:
    """The records of one user."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or state_folder()

    def _path(self, key: SkillKey) -> str:
        name = hashlib.blake2b(str(key).encode(), digest_size=16).hexdigest()
        return os.path.join(self.folder, "trust", f"{name}.json")

    def of(self, key: SkillKey) -> Record | None:
        """The record of a skill; None if nobody has trusted it, or this user may not even look where that would be.
        Raises `OSError` for one that is there and cannot be read: whoever took that for none would trust at first sight
        what may have changed since."""
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                record = known_types.decode(file.read(RECORD_BYTES_MAX), Record)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            if os.access(os.path.dirname(path), os.X_OK):
                raise
            return None
        except msgspec.MsgspecError:
            raise OSError(errno.EINVAL, "it holds no record that this version knows", path) from None
        return record if record.key == key else None

    def standing(self, skill: Skill) -> Standing:
        """How a skill stands to what was trusted. Raises `OSError` if that cannot be read."""
        record = self.of(skill.key)
        if record is None:
            return "new"
        return "trusted" if record.digest == skill.digest else "changed"

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
    """The texts of a skill's files that are kept, the SKILL.md first, as far as there is room."""
    texts: dict[str, str] = {}
    room = TEXTS_BYTES_MAX
    for file in sorted(skill.files, key=lambda file: (file.path.lower() != "skill.md", file.path)):
        if file.size > min(TEXT_BYTES_MAX, room):
            continue
        text = _text(skill, file.path, TEXT_BYTES_MAX)
        if text is not None:
            texts[file.path] = text
            room -= len(text.encode())
    return texts


def _text(skill: Skill, path: str, most: int) -> str | None:
    try:
        return read(skill.folder, path, most).decode("utf-8")
    except (Unreadable, UnicodeDecodeError):
        return None


def changes(record: Record | None, skill: Skill) -> list[str]:
    """What is different about a skill from what was trusted, as the lines of a diff. All of it, however long, since
    somebody is about to agree to it; what is no text is shown by its size and digest. A text whose trusted form was too
    long to be kept is shown whole."""
    before = record if record is not None else Record(key=skill.key, digest="")
    now = {file.path: file for file in skill.files}
    lines: list[str] = []
    for path in sorted({*before.files, *now}):
        file = now.get(path)
        if file is None:
            lines += _diff(path, before.texts.get(path, ""), None) or [f"removed: {path}"]
        elif before.files.get(path) != file.digest:
            verb = "changed" if path in before.files else "added"
            new = _text(skill, path, file.size)
            if new is None:
                lines.append(f"{verb}: {path} (no text: {file.size} bytes, {file.digest})")
            elif path in before.files and path not in before.texts:
                lines.append(f"{verb}: {path} (what was trusted was not kept: this is all of it now)")
                lines += _diff(path, None, new)
            else:
                lines += _diff(path, before.texts.get(path), new) or [f"{verb}: {path} ({UNSHOWN})"]
    return lines


def _diff(path: str, old: str | None, new: str | None) -> list[str]:
    names = (path if old is not None else "/dev/null", path if new is not None else "/dev/null")
    return list(difflib.unified_diff((old or "").splitlines(), (new or "").splitlines(), *names, lineterm=""))
