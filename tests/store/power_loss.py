"""A power loss, legally: what a store does to its disk is written down, and every state that a disk may be left in is
built from it.

The rules are those that file systems promise, and no more. What was synced is there. Of the rest, each write may have
reached the disk or not, in any order, or in part: sectors of 512 bytes are whole or not there. Names of a directory
come and go in order, and last when the directory was synced; directories know nothing of each other.
"""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Iterator
from typing import Literal

import apsw
import msgspec

from windlass.store.jsonl.disk import Disk

SECTOR = 512

Kind = Literal["write", "truncate", "sync", "name", "unname", "rename", "folder", "sync folder", "said"]


class Op(msgspec.Struct, frozen=True):
    """One thing that was done to the disk, or said to a caller."""

    kind: Kind
    file: int = 0
    """Which file, by its number."""
    folder: str = ""
    name: str = ""
    target: str = ""
    offset: int = 0
    data: bytes = b""
    said: tuple[str, ...] = ()


class Recording:
    """What was done to the files below a folder, in order. It begins with what is there, all of it synced."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.ops: list[Op] = []
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, dict[str, int | None]] = {}
        """What was there before: by folder, the names in it and their files (None: a folder)."""
        for folder, folders, files in os.walk(root):
            here = self.names.setdefault(os.path.relpath(folder, root), {})
            here.update(dict.fromkeys(folders))
            for name in files:
                status = os.stat(os.path.join(folder, name))
                here[name] = status.st_ino
                self.contents[status.st_ino] = pathlib.Path(folder, name).read_bytes()

    def place(self, path: str | os.PathLike[str]) -> tuple[str, str] | None:
        """A path as folder and name, if it is below the root."""
        relative = os.path.relpath(path, self.root)
        if relative.startswith(".."):
            return None
        return os.path.dirname(relative) or ".", os.path.basename(relative)

    def named(self, path: str | os.PathLike[str], file: int) -> None:
        if where := self.place(path):
            self.ops.append(Op("name", file=file, folder=where[0], name=where[1]))

    def unnamed(self, path: str | os.PathLike[str]) -> None:
        if where := self.place(path):
            self.ops.append(Op("unname", folder=where[0], name=where[1]))

    def said(self, *words: str) -> None:
        self.ops.append(Op("said", said=words))


class RecordingDisk(Disk):
    """Writes down what the JSON-lines store does."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        done = super().pwrite(handle, data, offset)
        op = Op("write", file=os.fstat(handle).st_ino, offset=offset, data=bytes(data[:done]))
        self.recording.ops.append(op)
        return done

    def truncate(self, handle: int, size: int) -> None:
        super().truncate(handle, size)
        self.recording.ops.append(Op("truncate", file=os.fstat(handle).st_ino, offset=size))

    def fdatasync(self, handle: int) -> None:
        super().fdatasync(handle)
        path = os.readlink(f"/proc/self/fd/{handle}")
        if os.path.isdir(path):
            self.recording.ops.append(Op("sync folder", folder=os.path.relpath(path, self.recording.root)))
        else:
            self.recording.ops.append(Op("sync", file=os.fstat(handle).st_ino))

    def create(self, path: pathlib.Path) -> int:
        handle = super().create(path)
        self.recording.named(path, os.fstat(handle).st_ino)
        return handle

    def replace(self, source: pathlib.Path, target: pathlib.Path) -> None:
        super().replace(source, target)
        old, new = self.recording.place(source), self.recording.place(target)
        assert old is not None
        assert new is not None
        assert old[0] == new[0], "a store renames within a folder"
        self.recording.ops.append(Op("rename", folder=old[0], name=old[1], target=new[1]))

    def make_folder(self, path: pathlib.Path) -> list[pathlib.Path]:
        new = not path.exists()
        made = super().make_folder(path)
        if new and path.parent in made and (where := self.recording.place(path)):
            op = Op("folder", folder=where[0], name=where[1])
            if op not in self.recording.ops:  # told once, though the way up is gone again from above
                self.recording.ops.append(op)
        return made

    def remove(self, path: pathlib.Path) -> None:
        there = path.exists()
        super().remove(path)
        if there:
            self.recording.unnamed(path)


class RecordingFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], recording: Recording) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        new = path is not None and not os.path.exists(path)
        super().__init__("", name, flags)
        self._recording = recording
        self._new = new
        self._file = os.stat(path).st_ino if path is not None else 0
        self._path = path or ""
        if path is not None and new:
            recording.named(path, self._file)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._recording.ops.append(Op("write", file=self._file, offset=offset, data=bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._recording.ops.append(Op("truncate", file=self._file, offset=size))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._recording.ops.append(Op("sync", file=self._file))
        if self._new and (where := self._recording.place(self._path)):
            # SQLite syncs the folder with the first sync of a log file that it has made.
            self._recording.ops.append(Op("sync folder", folder=where[0]))
            self._new = False


class RecordingVFS(apsw.VFS):
    """Writes down what SQLite does."""

    def __init__(self, name: str, recording: Recording) -> None:
        super().__init__(name, "")
        self._recording = recording

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return RecordingFile(name, flags, self._recording)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._recording.unnamed(filename)
        if syncdir and (where := self._recording.place(filename)):
            self._recording.ops.append(Op("sync folder", folder=where[0]))


class Crash:
    """The disk as a power loss before some op may have left it; which of the legal states, chance says."""

    def __init__(self, recording: Recording, at: int, chance: random.Random) -> None:
        self._recording = recording
        self._chance = chance
        self._done = recording.ops[:at]
        self._keep = chance.choice((0.0, 0.5, 1.0, chance.random()))
        """How much of what was not synced has reached the disk."""

    def said(self) -> list[tuple[str, ...]]:
        """What callers had been told by then."""
        return [op.said for op in self._done if op.kind == "said"]

    def build(self, target: pathlib.Path) -> None:
        """Writes that state into a folder."""
        files = self._files()
        for path, file in self._tree("."):
            where = target / path
            if file is None:
                where.mkdir(parents=True, exist_ok=True)
            else:
                where.parent.mkdir(parents=True, exist_ok=True)
                where.write_bytes(files.get(file, b""))

    def _files(self) -> dict[int, bytes]:
        contents = {file: bytearray(data) for file, data in self._recording.contents.items()}
        last = {op.file: number for number, op in enumerate(self._done) if op.kind == "sync"}
        for number, op in enumerate(self._done):
            if op.kind not in ("write", "truncate"):
                continue
            data = contents.setdefault(op.file, bytearray())
            if number < last.get(op.file, -1):
                _apply(data, op)
            elif self._chance.random() < self._keep:
                for piece in _torn(op, self._chance):
                    _apply(data, piece)
        return {file: bytes(data) for file, data in contents.items()}

    def _tree(self, folder: str) -> Iterator[tuple[str, int | None]]:
        for name, file in self._names(folder).items():
            path = os.path.normpath(os.path.join(folder, name))
            yield path, file
            if file is None:
                yield from self._tree(path)

    def _names(self, folder: str) -> dict[str, int | None]:
        mine = [(number, op) for number, op in enumerate(self._done) if op.folder == folder]
        synced = max((number for number, op in mine if op.kind == "sync folder"), default=-1)
        changes = [(number, op) for number, op in mine if op.kind in ("name", "unname", "rename", "folder")]
        sure = sum(number < synced for number, _ in changes)
        cut = sure + round((len(changes) - sure) * self._keep * self._chance.random())
        names = dict(self._recording.names.get(folder, {}))
        for _, op in changes[:cut]:
            match op.kind:
                case "name":
                    names[op.name] = op.file
                case "folder":
                    names[op.name] = None
                case "unname":
                    names.pop(op.name, None)
                case _:
                    names[op.target] = names.pop(op.name)
        return names


def _apply(data: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        del data[op.offset :]
        data.extend(bytes(op.offset - len(data)))
        return
    data.extend(bytes(max(0, op.offset - len(data))))
    data[op.offset : op.offset + len(op.data)] = op.data


def _torn(op: Op, chance: random.Random) -> Iterator[Op]:
    """A write as it may have arrived: whole, or some of its sectors."""
    if op.kind == "truncate" or chance.random() < 0.5:
        yield op
        return
    start = 0
    while start < len(op.data):
        end = min(len(op.data), start + SECTOR - (op.offset + start) % SECTOR)
        if chance.random() < 0.5:
            yield Op("write", file=op.file, offset=op.offset + start, data=op.data[start:end])
        start = end
