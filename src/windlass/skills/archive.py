"""Archives of skills: unpacked into a folder that is named by the archive's own digest, or not at all.

Every entry is looked at before anything is written: plain files and folders only, no path that is absolute, leads up or
means another entry on some machine, and bounds on count, size and how much a little data may grow. Unpacked beside its
place and renamed, so that half an archive is never seen."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import unicodedata
from collections.abc import Iterator
from typing import IO, NamedTuple

from .archive_bytes import TooMuch, check_directory, tar_bytes
from .folder import DEPTH_MAX, FOLDER_BYTES_MAX, PATH_CHARS_MAX, Unreadable

ARCHIVE_BYTES_MAX = 64 * 1024 * 1024
ENTRIES_MAX = 2_000
RATIO_MAX = 200
"""How many bytes one byte of the archive may become."""
RATIO_FREE_BYTES = 1024 * 1024
"""What may be unpacked whatever the ratio is."""
ON_WINDOWS = frozenset({"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))})
FIX = "make the archive anew of plain files and folders"


class Entry(NamedTuple):
    """One entry of an archive."""

    path: str
    size: int
    is_folder: bool
    runs: bool
    source: object


def unpacked(archive: str, beneath: str) -> str:
    """The folder that an archive is unpacked into, beneath some folder; done once. Raises `Unreadable`."""
    digest = _digest(archive)
    place = os.path.join(beneath, digest)
    if os.path.isdir(place):
        return place
    try:
        os.makedirs(beneath, mode=0o700, exist_ok=True)
        made = tempfile.mkdtemp(prefix=f".{digest[:8]}-", dir=beneath)
    except OSError as error:
        told = f"{archive!r} cannot be unpacked in {beneath!r}: {error.strerror}"
        raise Unreadable("archive-unreadable", told, FIX, archive) from None
    try:
        _unpack(archive, made)
        os.rename(made, place)
    except OSError as error:
        if not os.path.isdir(place):
            raise Unreadable("archive-unreadable", f"{archive!r}: {error.strerror or error}", FIX, archive) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return place


def _digest(archive: str) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    try:
        if os.stat(archive).st_size > ARCHIVE_BYTES_MAX or not stat.S_ISREG(os.stat(archive).st_mode):
            told = f"{archive!r} is no file of at most {ARCHIVE_BYTES_MAX >> 20} MiB"
            raise Unreadable("archive-large", told, "give a smaller one", archive)
        with open(archive, "rb") as file:
            while piece := file.read(1 << 20):
                hasher.update(piece)
    except OSError as error:
        raise Unreadable("archive-unreadable", f"{archive!r}: {error.strerror}", "give an archive", archive) from None
    return hasher.hexdigest()


def _unpack(archive: str, folder: str) -> None:
    import tarfile
    import zipfile
    import zlib

    size = os.path.getsize(archive)
    try:
        if zipfile.is_zipfile(archive):
            check_directory(archive)
            with zipfile.ZipFile(archive) as zipped:
                _write(_checked(_of_zip(zipped), size), folder, size, lambda entry: zipped.open(entry))
        else:
            with tar_bytes(archive) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
                entries = _checked(_of_tar(tar), size)
                plain.is_listed = True
                _write(entries, folder, size, lambda entry: tar.extractfile(entry))
    except TooMuch as error:
        raise Unreadable("archive-bomb", f"{archive!r} {error}", FIX, archive) from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise Unreadable("archive-unreadable", f"{archive!r} is no sound archive: {error}", FIX, archive) from None
    except (ValueError, UnicodeError, KeyError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable("archive-unreadable", f"{archive!r} is no sound archive: {error}", FIX, archive) from None


def _of_zip(zipped: object) -> Iterator[Entry]:
    for info in zipped.infolist():  # type: ignore[attr-defined]
        mode = info.external_attr >> 16
        kind = stat.S_IFMT(mode)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused("archive-link", info.filename, "is a link or a device")
        if info.flag_bits & 1:
            raise _refused("archive-encrypted", info.filename, "is encrypted")
        name = info.orig_filename
        yield Entry(name, info.file_size, info.is_dir() or kind == stat.S_IFDIR, bool(mode & stat.S_IXUSR), info)


def _of_tar(tar: object) -> Iterator[Entry]:
    for info in tar:  # type: ignore[attr-defined]
        if not (info.isreg() or info.isdir()):
            raise _refused("archive-link", info.name, "is a link or a device")
        if info.issparse():
            raise _refused("archive-bomb", info.name, "is sparse")
        yield Entry(info.name, info.size, info.isdir(), bool(info.mode & stat.S_IXUSR), info)


def _checked(entries: Iterator[Entry], size: int) -> list[Entry]:
    """All entries, if every one of them may be written."""
    checked_entries: list[Entry] = []
    seen: dict[str, bool] = {}
    room = min(FOLDER_BYTES_MAX, max(RATIO_FREE_BYTES, size * RATIO_MAX))
    for entry in entries:
        path = _path(entry.path)
        if not path:
            continue
        same = unicodedata.normalize("NFKC", path).casefold()
        if same in seen and not (entry.is_folder and seen[same]):
            raise _refused("archive-duplicate", entry.path, "stands twice")
        parents = ["/".join(same.split("/")[:count]) for count in range(1, same.count("/") + 1)]
        if any(seen.get(parent) is False for parent in parents):
            raise _refused("archive-duplicate", entry.path, "lies beneath a file")
        seen[same] = entry.is_folder
        room -= entry.size
        if room < 0 or entry.size < 0:
            raise _refused("archive-bomb", entry.path, "makes it too large")
        checked_entries.append(entry._replace(path=path))
        if len(checked_entries) > ENTRIES_MAX:
            raise _refused("archive-bomb", entry.path, f"is one of more than {ENTRIES_MAX} entries")
    return checked_entries


def _path(path: str) -> str:
    """A path that means a file beneath the folder on every machine; empty for the folder itself."""
    plain = path[2:] if path.startswith("./") else path
    plain = plain.rstrip("/")
    parts = plain.split("/")
    if plain in ("", ".") and not path.startswith("/"):
        return ""
    if plain.startswith("/") or "\\" in plain or ":" in plain or any(part in ("", ".", "..") for part in parts):
        raise _refused("archive-path", path, "is absolute, leads up, or is no plain path")
    if len(plain) > PATH_CHARS_MAX or len(parts) > DEPTH_MAX or not plain.isprintable():
        raise _refused("archive-name", path, "is too long, too deep, or has characters that cannot be shown")
    if any(part.partition(".")[0].lower() in ON_WINDOWS or part.endswith((".", " ")) for part in parts):
        raise _refused("archive-name", path, "means something else on some machines")
    if ".git" in (part.lower() for part in parts):
        raise _refused("archive-name", path, "is part of a git repository")
    return plain


def _refused(code: str, path: str, why: str) -> Unreadable:
    return Unreadable(code, f"the entry {path[:PATH_CHARS_MAX]!r} {why}", FIX)


def _write(entries: list[Entry], folder: str, size: int, opened: object) -> None:
    """Writes what was checked. What an entry really holds is counted again: its header may lie."""
    room = min(FOLDER_BYTES_MAX, max(RATIO_FREE_BYTES, size * RATIO_MAX))
    for entry in entries:
        path = os.path.join(folder, *entry.path.split("/"))
        if entry.is_folder:
            os.makedirs(path, mode=0o755, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        source: IO[bytes] = opened(entry.source)  # type: ignore[operator]
        with source, open(path, "xb") as target:
            while piece := source.read(1 << 16):
                room -= len(piece)
                if room < 0:
                    raise _refused("archive-bomb", entry.path, "makes it too large")
                target.write(piece)
        os.chmod(path, 0o555 if entry.runs else 0o444)
