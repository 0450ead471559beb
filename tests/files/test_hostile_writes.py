"""Nothing outside the root is ever written, nothing but a regular file is, and nothing hangs or is left in part.

Promise S7. Everything is tried with the kernel's own guard and with the walk that stands in for it."""

from __future__ import annotations

import errno
import hashlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from windlass.tools.context import ToolContext, ToolError
from windlass.tools.description import CallPlace, described
from windlass.tools.files import FILE_TOOLS, WRITE_TOOLS, file_tools
from windlass.tools.files.write import temporary_files

from .bench import MEANS, Bench, open_descriptors

HANG_S = 20


@pytest.fixture(params=MEANS)
def bench(request, tmp_path):
    made = Bench(tmp_path, names=(*FILE_TOOLS, *WRITE_TOOLS), means=request.param)
    made.write("inside.txt", "harmless")
    made.write("sub/deep/file.txt", "harmless")
    (tmp_path / "root-evil").mkdir()
    (tmp_path / "root-evil/a.txt").write_text("outside")
    return made


def every_way_to_write(bench: Bench, path: str) -> list[tuple[str, Callable[[], str]]]:
    """Each way in which a tool may be led to write at a path."""
    edits = [{"path": path, "old": "harmless", "new": "evil"}]
    return [
        ("write", lambda: bench.bare("write", path=path, content="evil")),
        ("edit", lambda: bench.bare("edit", path=path, old="outside", new="evil")),
        ("edit all", lambda: bench.bare("edit", path=path, old="harmless", new="evil", all=True)),
        ("patch", lambda: bench.call("patch", edits=edits)),
        ("make_directory", lambda: bench.bare("make_directory", path=path)),
        ("remove", lambda: bench.bare("remove", path=path)),
        ("move there", lambda: bench.bare("move", path="inside.txt", to=path)),
        ("move away", lambda: bench.bare("move", path=path, to="taken")),
        ("describe", lambda: str(described(bench.tools["remove"], {"path": path}, CallPlace(session="s")))),
    ]


def outside(bench: Bench) -> dict[str, str]:
    """All that lies beside the root, by path and content; links as where they lead."""
    found = {}
    for path in sorted(bench.place.rglob("*")):
        if bench.root in (path, *path.parents):
            continue
        found[str(path)] = os.readlink(path) if path.is_symlink() else _content(path)
    return found


def _content(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"


def unwritten(bench: Bench, path: str) -> None:
    before = outside(bench)
    for tool, attempt in every_way_to_write(bench, path):
        try:
            attempt()
        except ToolError:
            pass
        assert outside(bench) == before, f"{tool} {path!r}"


@pytest.mark.parametrize(
    "path",
    [
        "..", "../secret.txt", "../new.txt", "sub/../../new.txt", "sub/deep/../../../secret.txt", "/etc/passwd",
        "//etc/passwd", "/", "/proc/self/root/tmp/x", "/proc/self/cwd/x", "../root-evil/a.txt", "../root-evil/new.txt",
        "sub/../../root-evil/a.txt", "./../secret.txt", "sub/./../../secret.txt", "\\..\\secret.txt", "~/x", "....//x",
    ],
)  # fmt: skip
def test_no_path_leads_out(bench, path):
    unwritten(bench, path)


@pytest.mark.parametrize("target", ["../secret.txt", "/etc", "..", "../root-evil", "/proc/self/root", "nowhere"])
def test_no_link_leads_anywhere(bench, target):
    (bench.root / "link").symlink_to(target)
    (bench.root / "sub/link").symlink_to(f"../{target}" if not target.startswith("/") else target)
    for path in ("link", "link/a.txt", "link/new/a.txt", "sub/link", "sub/link/a.txt", "link/../secret.txt"):
        unwritten(bench, path)
    assert (bench.root / "link").is_symlink()


def test_a_link_within_the_root_is_told_and_not_followed(bench):
    (bench.root / "link").symlink_to("sub")
    (bench.root / "file").symlink_to("inside.txt")
    error = bench.refused("write", path="link/deep/file.txt", content="evil")
    assert error.told == (
        "link/deep/file.txt lies behind a link: link leads to sub\n"
        "links are not followed for writing: name the file where it really is"
    )
    error = bench.refused("edit", path="file", old="harmless", new="evil")
    assert (error.code, error.message) == ("is_a_link", "file is a link to inside.txt")
    assert (bench.root / "inside.txt").read_text() == "harmless"


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_only_regular_files_are_written_and_nothing_hangs(bench, kind, monkeypatch):
    path = bench.root / "thing"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(bench.root)  # the whole path may be longer than the name of a socket can be
        with socket.socket(socket.AF_UNIX) as held:
            held.bind("thing")
    else:
        try:
            os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
        except PermissionError:
            path.symlink_to("/dev/null")
    began = time.monotonic()
    for tool, attempt in every_way_to_write(bench, "thing"):
        if tool == "describe":
            attempt()
            continue
        with pytest.raises(ToolError):
            attempt()
    assert time.monotonic() - began < HANG_S
    assert os.path.lexists(path)


@pytest.mark.parametrize("path", ["a" * 300, "/".join(["a"] * 3_000), "a\0b", "", ".", "./"])
def test_names_that_no_file_has_are_refused(bench, path):
    before = sorted(str(one) for one in bench.root.rglob("*"))
    for tool, attempt in every_way_to_write(bench, path):
        if tool != "describe":
            with pytest.raises(ToolError):
                attempt()
    assert sorted(str(one) for one in bench.root.rglob("*")) == before


def test_a_very_deep_path_is_made_or_refused_and_costs_no_descriptors(bench):
    held = open_descriptors()
    bench.code("write", path="/".join(["d"] * 500) + "/a.txt", content="x")
    assert open_descriptors() == held


def test_names_that_are_not_utf8_are_written_as_they_are(bench):
    name = os.fsdecode(b"caf\xe9.txt")
    bench.bare("write", path=name, content="x")
    assert os.listdir(os.fsencode(bench.root)).count(b"caf\xe9.txt") == 1
    assert bench.bare("remove", path=name) == 'removed "caf\\xe9.txt"' or not (bench.root / name).exists()


def test_a_directory_that_was_replaced_by_a_link_between_look_and_write_is_not_followed(bench, monkeypatch):
    (bench.root / "sub/deep/file.txt").unlink()
    real = temporary_files.write_beside

    def swapped(folder: int, data: bytes, mode: int | None) -> str:
        os.rename(bench.root / "sub/deep", bench.root / "aside")
        os.symlink(bench.place / "root-evil", bench.root / "sub/deep")
        return real(folder, data, mode)

    monkeypatch.setattr(temporary_files, "write_beside", swapped)
    bench.bare("write", path="sub/deep/a.txt", content="evil")
    assert (bench.place / "root-evil/a.txt").read_text() == "outside"
    assert (bench.root / "aside/a.txt").read_text() == "evil"


def test_a_file_that_was_replaced_between_look_and_write_keeps_what_it_got(bench, monkeypatch):
    real = temporary_files.write_beside

    def meanwhile(folder: int, data: bytes, mode: int | None) -> str:
        (bench.root / "inside.txt").write_text("somebody else's")
        return real(folder, data, mode)

    monkeypatch.setattr(temporary_files, "write_beside", meanwhile)
    assert bench.refused("edit", path="inside.txt", old="harmless", new="evil").code == "changed_meanwhile"
    assert (bench.root / "inside.txt").read_text() == "somebody else's"


def test_a_file_that_appeared_between_look_and_write_is_not_replaced(bench, monkeypatch):
    real = temporary_files.write_beside

    def meanwhile(folder: int, data: bytes, mode: int | None) -> str:
        (bench.root / "new.txt").write_text("somebody else's")
        return real(folder, data, mode)

    monkeypatch.setattr(temporary_files, "write_beside", meanwhile)
    assert bench.refused("write", path="new.txt", content="evil").code == "changed_meanwhile"
    assert (bench.root / "new.txt").read_text() == "somebody else's"
    assert [path.name for path in bench.root.iterdir() if path.name.startswith(".windlass")] == []


def test_without_the_call_that_renames_to_a_new_name_nothing_is_replaced_either(bench, monkeypatch):
    monkeypatch.setattr(temporary_files, "rename_new", lambda *_: False)
    bench.call("write", path="new.txt", content="x")
    assert bench.refused("move", path="new.txt", to="inside.txt").code == "already_there"
    bench.call("move", path="new.txt", to="newer.txt")
    assert (bench.root / "newer.txt").read_text() == "x"


# --- the disk ---


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_refuses_leaves_the_old_content_and_nothing_else(bench, monkeypatch, error):
    def refuse(fd: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", refuse)
    for args in [("edit", {"path": "inside.txt", "old": "harmless", "new": "x"})]:
        assert bench.code(args[0], **args[1]) in ("disk_full", "permission_denied", "not_written")
    assert sorted(os.listdir(bench.root)) == ["inside.txt", "sub"]
    assert (bench.root / "inside.txt").read_text() == "harmless"


FULL = """
import os, sys
sys.path[:0] = {path!r}
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.files import file_tools
tools = {{tool.name: tool for tool in file_tools("/mnt", ["read", "write", "edit"])}}
open("/mnt/a.txt", "w").write("x" * 60_000)
ctx = ToolContext(session="s", call_id="c")
try:
    tools["edit"](ctx, path="a.txt", old="x" * 60_000, new="y" * 120_000, all=False)
    print("written")
except ToolError as error:
    print(error.code)
print(set(open("/mnt/a.txt").read()), sorted(os.listdir("/mnt")))
"""


def test_a_full_disk_keeps_the_old_file_and_no_part_of_the_new_one(tmp_path):
    """On a real file system of 128 kB, mounted in a namespace of its own."""
    program = FULL.format(path=[path for path in sys.path if path])
    mount = 'mount -t tmpfs -o size=128k tmpfs /mnt && exec "$@"'
    made = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if made.returncode != 0 and ("unshare" in made.stderr or "mount" in made.stderr):
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()[:100]}")
    assert made.stdout == "disk_full\n{'x'} ['a.txt']\n", made.stderr


# --- what is left behind ---


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    program = (
        f"import os, sys; sys.path[:0] = {[path for path in sys.path if path]!r}\n"
        "from windlass.tools.files.write import temporary_files\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)\n"
        "temporary_files.write_beside(fd, b'half', None)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(root)], timeout=60, check=False)
    (stale,) = os.listdir(root)
    assert temporary_files.OURS.fullmatch(stale)
    ours = temporary_files.write_beside(fd := os.open(root, os.O_RDONLY | os.O_DIRECTORY), b"living", None)
    os.close(fd)
    (root / ".windlass-not-ours.part").write_text("somebody's")
    tools = {tool.name: tool for tool in file_tools(root, WRITE_TOOLS)}
    tools["write"](ToolContext(session="s", call_id="c"), path="a.txt", content="x")
    assert sorted(os.listdir(root)) == sorted([ours, ".windlass-not-ours.part", "a.txt"])
