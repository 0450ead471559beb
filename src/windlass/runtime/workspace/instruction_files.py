"""Instruction files of a workspace (AGENTS.md and the like): found, read within bounds if the workspace is trusted,
and put behind an agent's own instructions. Nothing outside of the workspace's top folder is ever read."""

from __future__ import annotations

import codecs
import hashlib
import os
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Value
from windlass.tools.files.shown_names import shown, size

if TYPE_CHECKING:
    from windlass.tools.files.root import Root

DEFAULT_NAMES = ("AGENTS.md",)
NAMES_MAX = 16
NAME_CHARS_MAX = 100
FOLDERS_MAX = 64
FILE_BYTES_MAX = 32 * 1024
"""Of one file; the rest is cut off, and the model and the summary are told so."""
ALL_BYTES_MAX = 128 * 1024
"""Of all files together; the nearest ones come first when there is not room for all."""

UNTRUSTED = "not read: the workspace is not trusted"


class InstructionFile(Value, frozen=True, kw_only=True):
    """An instruction file that was found. `path` is relative to the top folder, `bytes` its size, `digest` that of the
    bytes that were read; `note` says why it is not used, or not whole."""

    path: str
    bytes: int = 0
    digest: str = ""
    used: bool = False
    note: str = ""


class FoundFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a workspace: the files, farthest first, and the text of those that are used."""

    files: tuple[InstructionFile, ...] = ()
    text: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        """The files that are used, as `path@digest`."""
        return tuple(f"{file.path}@{file.digest}" for file in self.files if file.used)


def checked_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of instruction files. Raises `UsageError` for what is no plain file name."""
    if len(names) > NAMES_MAX:
        raise UsageError(f"{len(names)} names of instruction files: give at most {NAMES_MAX}")
    for name in names:
        plain = 0 < len(name) <= NAME_CHARS_MAX and name.isprintable() and not set(name) & set("/\\")
        if not plain or name in (".", ".."):
            raise UsageError(f"instruction file {name!r}: give the name of a file, without folders")
    return tuple(dict.fromkeys(names))


def folders_between(top: str, folder: str) -> tuple[str, ...]:
    """The folders from the top one down to the workspace, as paths relative to the top; at most the nearest 64."""
    inner = os.path.relpath(folder, top)
    parts = [] if inner == "." else inner.split(os.sep)
    return tuple("/".join(parts[:count]) for count in range(len(parts) + 1))[-FOLDERS_MAX:]


def candidates(top: str, folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Where instruction files may be, relative to the top, farthest first."""
    return tuple(f"{place}/{name}" if place else name for place in folders_between(top, folder) for name in names)


def look(top: str, folder: str, names: tuple[str, ...], *, trusted: bool, exclude: tuple[str, ...] = ()) -> FoundFiles:
    """Finds the files; reads them only if the workspace is trusted, and none that leads to what `exclude` names."""
    there = [(path, about) for path in candidates(top, folder, names) if (about := _about(top, path)) is not None]
    if not trusted:
        return FoundFiles(files=tuple(_unread(path, about) for path, about in there))
    return _read_all(top, [path for path, _ in there], exclude)


def _about(top: str, path: str) -> os.stat_result | None:
    try:
        return os.lstat(os.path.join(top, path))
    except (OSError, ValueError):
        return None


def _unread(path: str, about: os.stat_result) -> InstructionFile:
    return InstructionFile(path=shown(path), bytes=about.st_size, note=UNTRUSTED)


def _read_all(top: str, paths: list[str], exclude: tuple[str, ...]) -> FoundFiles:
    """Reads the nearest first, so that those have the room, and puts them in order afterwards."""
    if not paths:
        return FoundFiles()
    from windlass.tools.files.exclusion import screened
    from windlass.tools.files.root import Root

    try:
        root = screened(Root(top), exclude)
    except UsageError as error:
        return FoundFiles(files=tuple(InstructionFile(path=shown(path), note=str(error)) for path in paths))
    files: list[InstructionFile] = []
    texts: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    room = ALL_BYTES_MAX
    try:
        for path in reversed(paths):
            file, text = _read_one(root, path, min(room, FILE_BYTES_MAX))
            twin = seen.setdefault((os.path.dirname(path), file.digest), file.path) if file.used else file.path
            if twin != file.path:
                file = msgspec.structs.replace(file, used=False, note=f"left out: the same as {twin}")
            if file.used:
                room -= min(file.bytes, FILE_BYTES_MAX)
                texts.append(_section(file, text))
            files.append(file)
    finally:
        root.close()
    return FoundFiles(files=tuple(reversed(files)), text="\n\n".join(reversed(texts)))


def _read_one(root: Root, path: str, most: int) -> tuple[InstructionFile, str]:
    from windlass.tools.files.root import Refusal

    name = shown(path)
    try:
        with root.file(path) as fd:
            about = os.fstat(fd)
            if most <= 0:
                told = f"left out: more than {size(ALL_BYTES_MAX)} of instruction files"
                return InstructionFile(path=name, bytes=about.st_size, note=told), ""
            data = _bytes_of(fd, most)
    except Refusal as refusal:
        return InstructionFile(path=name, note=f"not read: {refusal.message}"), ""
    except OSError as error:
        return InstructionFile(path=name, note=f"not read: {error.strerror}"), ""
    whole = max(about.st_size, len(data))
    if b"\0" in data:
        return InstructionFile(path=name, bytes=whole, note="left out: it is not text"), ""
    text, bad = _decoded(data[:most], cut=len(data) > most)
    notes = [f"cut: the first {size(most)} are used"] if len(data) > most else []
    notes += [f"{size(bad)} that are not UTF-8 are replaced by U+FFFD"] if bad else []
    digest = hashlib.blake2b(data[:most], digest_size=12).hexdigest()
    file = InstructionFile(path=name, bytes=whole, digest=digest, used=bool(text), note="; ".join(notes))
    return (file if text else msgspec.structs.replace(file, note="left out: it is empty")), text


def _bytes_of(fd: int, most: int) -> bytes:
    """As much as may be used, and one byte more if there is more."""
    data = b""
    while len(data) <= most:
        piece = os.read(fd, most + 1 - len(data))
        if not piece:
            break
        data += piece
    return data


def _decoded(data: bytes, *, cut: bool) -> tuple[str, int]:
    """Text out of bytes, and how many of them are not UTF-8. A character that the cut went through is dropped."""
    data = data.removeprefix(codecs.BOM_UTF8)
    strict = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    text = strict.decode(data, final=not cut)
    bad = sum("\udc80" <= char <= "\udcff" for char in text)
    if bad:
        text = "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in text)
    return text.strip(), bad


def _section(file: InstructionFile, text: str) -> str:
    cut = f"\n\n[{file.path} is longer: it has {size(file.bytes)}]" if file.note.startswith("cut") else ""
    return f"# Instructions from {file.path}\n\n{text}{cut}"


def composed(own: str, files: str) -> str:
    """An agent's own instructions with those of the files behind them."""
    return f"{own}\n\n{files}" if own and files else own or files


def parted(text: str, own_chars: int) -> str:
    """The files' part of instructions that were composed with so many characters of the agent's own."""
    return text[own_chars:].lstrip("\n")


def digest_of(text: str) -> str:
    """The digest under which instructions are recorded."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest() if text else ""
