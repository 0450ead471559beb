"""Archives of skills: those that would write elsewhere, mean something else, or grow without end are refused whole."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable

import pytest

from tests.skills.corpus import skill
from windlass.skills.archive import ENTRIES_MAX, unpacked
from windlass.skills.catalogue import catalogue
from windlass.skills.config import Skills
from windlass.skills.folder import Unreadable

SKILL = skill("packed").encode()
Make = Callable[[pathlib.Path], None]
HELD_MAX = 16 * 1024 * 1024
"""More than that is never held of an archive."""


def tar(*entries: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w") -> Make:
    def make(path: pathlib.Path) -> None:
        with tarfile.open(path, mode) as file:  # type: ignore[call-overload]
            for entry in entries:
                if isinstance(entry, tarfile.TarInfo):
                    file.addfile(entry)
                    continue
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                file.addfile(info, io.BytesIO(entry[1]))

    return make


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zipped(*entries: tuple[str, bytes], mode: int = 0, method: int = zipfile.ZIP_STORED) -> Make:
    def make(path: pathlib.Path) -> None:
        with zipfile.ZipFile(path, "w", method) as file:
            for name, data in entries:
                info = zipfile.ZipInfo("x")
                info.filename = name  # as it is: the constructor would change separators
                info.external_attr, info.compress_type = mode << 16, method
                file.writestr(info, data)

    return make


def raw(data: bytes) -> Make:
    def make(path: pathlib.Path) -> None:
        path.write_bytes(data)

    return make


def lying_zip(path: pathlib.Path) -> None:
    """A header that says 10 bytes of an entry that has many more."""
    zipped(("packed/SKILL.md", bytes(40_000_000)), method=zipfile.ZIP_DEFLATED)(path)
    data = path.read_bytes().replace((40_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)


def long_header(kind: bytes) -> Make:
    """A tar of a few kilobytes whose first entry has so much to say of itself that nobody could hold it."""

    def make(path: pathlib.Path) -> None:
        with gzip.open(path, "wb", compresslevel=9) as file:
            info = tarfile.TarInfo("packed")
            info.size, info.type = 1 << 26, kind
            file.write(info.tobuf(tarfile.GNU_FORMAT))
            file.write(bytes(1 << 26))
        tar(("packed/SKILL.md", SKILL))(path.with_suffix(".rest"))
        with gzip.open(path, "ab") as file:
            file.write(path.with_suffix(".rest").read_bytes())
        path.with_suffix(".rest").unlink()

    return make


def long_directory(path: pathlib.Path) -> None:
    """A zip that says of half a million entries where they are, and has none."""
    row = b"PK\x01\x02" + struct.pack("<4B4H3L5H2L", *[20, 3, 20, 0], *[0] * 7, 1, *[0] * 6) + b"x"
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65_535, 65_535, len(row) * 500_000, 0, 0)
    path.write_bytes(row * 500_000 + end)


BIG = bytes(40_000_000)
HOSTILE: dict[str, tuple[Make, str]] = {
    "tar absolute": (tar(("/tmp/evil", b"x")), "archive-path"),
    "tar parent": (tar(("../evil", b"x")), "archive-path"),
    "tar parent inside": (tar(("packed/../../evil", b"x")), "archive-path"),
    "tar dot segment": (tar(("packed/./evil", b"x")), "archive-path"),
    "tar empty segment": (tar(("packed//evil", b"x")), "archive-path"),
    "tar backslash": (tar(("..\\evil", b"x")), "archive-path"),
    "tar drive": (tar(("C:evil", b"x")), "archive-path"),
    "tar symlink out": (tar(special("packed/a", tarfile.SYMTYPE, "../../etc/passwd")), "archive-link"),
    "tar symlink in": (tar(special("packed/a", tarfile.SYMTYPE, "SKILL.md")), "archive-link"),
    "tar symlink then file": (tar(special("p", tarfile.SYMTYPE, "/tmp"), ("p/evil", b"x")), "archive-link"),
    "tar hardlink out": (tar(special("packed/a", tarfile.LNKTYPE, "/etc/passwd")), "archive-link"),
    "tar device": (tar(special("packed/a", tarfile.CHRTYPE)), "archive-link"),
    "tar pipe": (tar(special("packed/a", tarfile.FIFOTYPE)), "archive-link"),
    "tar duplicate": (tar(("packed/SKILL.md", SKILL), ("packed/SKILL.md", b"evil")), "archive-duplicate"),
    "tar case": (tar(("packed/SKILL.md", SKILL), ("packed/skill.MD", b"evil")), "archive-duplicate"),
    "tar unicode twin": (tar(("packed/\u00e9", b"a"), ("packed/e\u0301", b"b")), "archive-duplicate"),
    "tar beneath a file": (tar(("packed", b"a"), ("packed/x", b"b")), "archive-duplicate"),
    "tar control": (tar(("packed/a\x1b[2J", b"x")), "archive-name"),
    "tar newline": (tar(("packed/a\nb", b"x")), "archive-name"),
    "tar long": (tar(("packed/" + "a" * 500, b"x")), "archive-name"),
    "tar deep": (tar(("/".join("a" * 20), b"x")), "archive-name"),
    "tar device name": (tar(("packed/CON.md", b"x")), "archive-name"),
    "tar trailing dot": (tar(("packed/a.", b"x")), "archive-name"),
    "tar git": (tar(("packed/.git/hooks/pre-commit", b"x")), "archive-name"),
    "tar many": (tar(*((f"packed/{n}", b"") for n in range(ENTRIES_MAX + 1))), "archive-bomb"),
    "tar bomb": (tar(("packed/a", BIG), mode="w:gz"), "archive-bomb"),
    "tar long header": (long_header(tarfile.XHDTYPE), "archive-bomb"),
    "tar long name": (long_header(tarfile.GNUTYPE_LONGNAME), "archive-bomb"),
    "tar long link": (long_header(tarfile.GNUTYPE_LONGLINK), "archive-bomb"),
    "tar other packing": (tar(("packed/SKILL.md", SKILL), mode="w:xz"), "archive-unreadable"),
    "zip absolute": (zipped(("/evil", b"x")), "archive-path"),
    "zip parent": (zipped(("../evil", b"x")), "archive-path"),
    "zip backslash": (zipped(("..\\evil", b"x")), "archive-path"),
    "zip symlink": (zipped(("packed/a", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777), "archive-link"),
    "zip bomb": (zipped(("packed/a", BIG), method=zipfile.ZIP_DEFLATED), "archive-bomb"),
    "zip long directory": (long_directory, "archive-bomb"),
    "zip lies": (lying_zip, "archive-"),
    "zip cut": (raw(b"PK\x03\x04" + bytes(40)), "archive-unreadable"),
    "no archive": (raw(b"hello"), "archive-unreadable"),
    "empty": (raw(b""), "archive-unreadable"),
}


def everything(folder: pathlib.Path) -> list[str]:
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def test_there_are_enough_of_them():
    assert len(HOSTILE) >= 30


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(name, tmp_path):
    make, code = HOSTILE[name]
    make(tmp_path / "evil.bin")
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable) as refused:
            unpacked(str(tmp_path / "evil.bin"), str(tmp_path / "cache"))
        assert tracemalloc.get_traced_memory()[1] < HELD_MAX
    finally:
        tracemalloc.stop()
    assert refused.value.code.startswith(code)
    assert refused.value.fix
    assert everything(tmp_path) == ["evil.bin"]


LONG = "packed/" + "/".join(["a_folder_with_a_long_name"] * 8) + "/x.md"


@pytest.mark.parametrize("make", [tar(("packed/SKILL.md", SKILL)), tar(("packed/SKILL.md", SKILL), (LONG, os.urandom(3_000_000)), mode="w:gz"), tar(("./packed/SKILL.md", SKILL), mode="w:gz"), zipped(("packed/SKILL.md", SKILL))])  # fmt: skip
def test_a_sound_archive_is_unpacked_once_for_reading_only(make, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make(tmp_path / "good.bin")
    config = Skills(archives=(str(tmp_path / "good.bin"),), skip_default_paths=True)
    first, second = catalogue(config), catalogue(config)
    assert [each.name for each in first.skills] == ["packed"]
    assert first.skills == second.skills
    assert first.labels("packed") == ("untrusted:skill",)
    assert stat.S_IMODE(os.stat(first.skills[0].location).st_mode) == 0o444


def test_a_hostile_archive_is_a_failure_of_the_search_and_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    HOSTILE["tar parent"][0](tmp_path / "evil.tar")
    found = catalogue(Skills(archives=(str(tmp_path / "evil.tar"),), skip_default_paths=True))
    assert [failed.reason.__struct_config__.tag for failed in found.failures] == ["load"]
    assert [each.code for each in found.diagnostics] == ["archive-path"]
