"""Nothing outside the root is ever read: paths, links, devices, pipes and trees made to lead out, hang or drown.

Promise S7. Everything is tried with the kernel's own guard and with the walk that stands in for it."""

from __future__ import annotations

import errno
import os
import pathlib
import random
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest

from windlass.events.errors import UsageError
from windlass.tools.context import ToolContext, ToolError
from windlass.tools.files import FileLimits, Outside, Root, file_tools
from windlass.tools.files import openat2 as calls
from windlass.tools.files import root as root_module

from .bench import MEANS, SECRET, Bench, every_way, open_descriptors

LONG = "a" * 300
NOBODY = ToolContext(session="s", call_id="c")


@pytest.fixture(params=MEANS)
def bench(request, tmp_path):
    if request.param == "kernel":
        assert Root(tmp_path).means == "kernel", "this machine's kernel has no openat2: nothing here would be proven"
    made = Bench(tmp_path, means=request.param)
    made.write("inside.txt", "harmless")
    made.write("sub/deep/file.txt", "harmless")
    return made


def nothing_leaks(bench, path):
    for tool, call in every_way(bench, path):
        try:
            said = call()
        except ToolError as error:
            said = error.told
        assert SECRET not in said, f"{tool} {path!r}"


# --- paths ---


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret.txt",
        "sub/../../secret.txt",
        "sub/deep/../../../secret.txt",
        "./../secret.txt",
        "sub//..//..//secret.txt",
        "/",
        "//",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/dev/stdin",
    ],
)
def test_a_path_that_leads_out_is_refused_by_name(bench, path):
    for tool, args in [
        ("read", {"path": path}),
        ("list", {"path": path}),
        ("glob", {"pattern": "*", "path": path}),
        ("grep", {"pattern": "x", "path": path}),
    ]:
        error = bench.refused(tool, **args)
        assert isinstance(error, Outside)
        assert error.code == "outside_root"
        assert "root" in error.told


def test_an_absolute_path_of_a_file_inside_is_refused_too(bench):
    assert bench.refused("read", path=str(bench.root / "inside.txt")).code == "outside_root"


def test_a_sibling_whose_name_begins_like_the_root_is_outside(bench):
    sibling = bench.place / "root-of-another"
    sibling.mkdir()
    (sibling / "secret.txt").write_text(SECRET)
    assert bench.refused("read", path="../root-of-another/secret.txt").code == "outside_root"
    assert bench.refused("read", path="../root/inside.txt").code == "outside_root"


@pytest.mark.parametrize(
    "path", ["sub/../inside.txt", "./inside.txt", "sub//../inside.txt", "sub/deep/../../inside.txt"]
)
def test_dots_that_stay_inside_are_fine(bench, path):
    assert "harmless" in bench.call("read", path=path)


@pytest.mark.parametrize(
    "path", ["inside.txt/", "inside.txt/.", "inside.txt/..", "inside.txt/../inside.txt", "inside.txt/x"]
)
def test_a_file_is_no_directory(bench, path):
    assert bench.refused("read", path=path).code == "not_found"


@pytest.mark.parametrize(
    "path",
    ["\0", "inside.txt\0", "a\0b", "\0/../secret.txt", LONG, "a/" * 3_000, "x" * 10_000, "../" * 2_000, "\ud800"],
)
def test_what_no_file_can_be_called_is_an_ordinary_refusal(bench, path):
    for tool in ("read", "list"):
        assert bench.refused(tool, path=path).code in ("not_found", "outside_root")


@pytest.mark.parametrize(
    "path", ["caf\udce9.txt", "\udcff\udcfe", "new\nline.txt", "esc\x1b[31m.txt", "rtl\u202etxt.exe"]
)
def test_names_that_are_not_text_are_read_and_shown_on_one_line(bench, path):
    with open(os.path.join(os.fsencode(bench.root), os.fsencode(path)), "wb") as file:
        file.write(b"found it")
    assert "found it" in bench.bare("read", path=path)
    for said in (bench.call("list"), bench.call("glob", pattern="*"), bench.call("grep", pattern="found")):
        said.encode("utf-8")
        assert not any(char in said for char in "\x1b\u202e")
        assert "\nline" not in said
    quoted = next(line for line in bench.call("glob", pattern="*").splitlines() if line != "inside.txt")
    assert quoted.startswith('"')
    assert quoted.endswith('"')


# --- links ---


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("../secret.txt", "outside_root"),
        ("../../../../../../../../etc/passwd", "outside_root"),
        ("/etc/passwd", "outside_root"),
        ("//etc//passwd", "outside_root"),
        ("/proc/self/root/etc/passwd", "outside_root"),
        ("link", "too_many_links"),
        ("./link/../link", "too_many_links"),
        ("nothing-there", "not_found"),
    ],
)
def test_a_link_that_leaves_the_root_is_not_followed(bench, target, code):
    (bench.root / "link").symlink_to(target)
    assert bench.refused("read", path="link").code == code
    nothing_leaks(bench, "link")
    nothing_leaks(bench, ".")


def test_a_link_to_a_directory_outside_is_no_way_out(bench):
    (bench.place / "elsewhere").mkdir()
    (bench.place / "elsewhere" / "secret.txt").write_text(SECRET)
    (bench.root / "door").symlink_to("../elsewhere")
    (bench.root / "sub" / "chain").symlink_to("../door")
    for path in ("door", "door/secret.txt", "sub/chain/secret.txt", "door/../inside.txt"):
        assert bench.refused("read", path=path).code == "outside_root"
        nothing_leaks(bench, path)
    nothing_leaks(bench, ".")
    assert "door -> ../elsewhere" in bench.call("list")


def test_an_absolute_link_is_refused_even_where_it_comes_back_in(bench):
    (bench.root / "back").symlink_to(bench.root / "inside.txt")
    assert bench.refused("read", path="back").code == "outside_root"


def test_a_link_within_the_root_is_followed_when_it_is_named(bench):
    (bench.root / "near").symlink_to("sub/deep")
    (bench.root / "sub" / "up").symlink_to("../inside.txt")
    (bench.root / "sub" / "around").symlink_to("deep/../../near/file.txt")
    assert "harmless" in bench.call("read", path="near/file.txt")
    assert "harmless" in bench.call("read", path="sub/up")
    assert "harmless" in bench.call("read", path="sub/around")
    assert bench.call("list", path="near") == "near/file.txt (8 bytes)"


def test_walks_go_through_no_link_so_that_none_is_endless(bench):
    (bench.root / "sub" / "loop").symlink_to("..")
    assert bench.call("glob", pattern="**/*.txt") == "inside.txt\nsub/deep/file.txt"
    assert bench.call("grep", pattern="harmless", files_only=True) == "inside.txt\nsub/deep/file.txt"


def test_a_hard_link_is_a_file_of_the_root_and_the_page_says_so(bench):
    os.link(bench.place / "secret.txt", bench.root / "linked.txt")
    assert SECRET in bench.call("read", path="linked.txt")
    page = pathlib.Path(__file__).parents[2] / "docs" / "files.md"
    assert "hard link" in page.read_text(encoding="utf-8")


def test_rules_files_are_not_read_through_links(bench):
    (bench.place / "rules").write_text("inside.txt\n")
    (bench.root / ".gitignore").symlink_to("../rules")
    assert "inside.txt" in bench.call("glob", pattern="*")


# --- things that are no files ---


@pytest.mark.guard(300)
def test_a_pipe_without_a_writer_does_not_hold_us_up(bench):
    os.mkfifo(bench.root / "pipe")
    assert bench.refused("read", path="pipe").message == "pipe is a pipe: only regular files are read"
    assert "pipe (neither file nor directory: it cannot be read)" in bench.call("list")
    assert bench.call("grep", pattern="harmless", files_only=True) == "inside.txt\nsub/deep/file.txt"
    assert bench.refused("grep", pattern="x", path="pipe").code == "not_a_file"
    os.mkfifo(bench.root / "sub" / ".gitignore")
    assert "sub/deep/file.txt" in bench.call("glob", pattern="**")


def test_a_socket_is_refused(bench, monkeypatch):
    monkeypatch.chdir(bench.root)  # the address of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")
        assert bench.refused("read", path="sock").message == "sock is a socket: only regular files are read"


@pytest.mark.parametrize("device", ["null", "zero", "random", "full", "tty"])
@pytest.mark.parametrize("means", MEANS)
def test_devices_are_refused_without_being_opened(means, device, monkeypatch):
    if not os.path.exists(f"/dev/{device}"):
        device = "null"
    opened = []
    real = os.open

    def noting(path, flags, *more, **named):
        fd = real(path, flags, *more, **named)
        if not flags & os.O_PATH:
            opened.append(stat.S_IFMT(os.fstat(fd).st_mode))
        return fd

    tools = {tool.name: tool for tool in file_tools("/dev", means=means)}
    monkeypatch.setattr(os, "open", noting)
    with pytest.raises(ToolError, match="is a device: only regular files are read"):
        tools["read"](NOBODY, path=device)
    assert set(opened) <= {stat.S_IFDIR}


@pytest.mark.parametrize(
    "path",
    [
        "proc/self/environ",
        "proc/self/mem",
        "proc/self/root/etc/passwd",
        "proc/self/cwd/pyproject.toml",
        "proc/self/fd/0",
        "proc/1/maps",
        "sys/kernel/notes",
    ],
)
@pytest.mark.parametrize("means", MEANS)
def test_the_kernels_file_systems_are_not_read_even_beneath_the_root(means, path):
    tools = {tool.name: tool for tool in file_tools("/", means=means)}
    with pytest.raises(ToolError) as caught:
        tools["read"](NOBODY, path=path)
    assert caught.value.code in ("not_a_file", "too_many_links", "outside_root", "not_found", "permission_denied")
    for folder in ("proc", "proc/self", "sys"):
        with pytest.raises(ToolError, match="which is not read by file tools"):
            tools["list"](NOBODY, path=folder)


def test_walks_do_not_enter_the_kernels_file_systems():
    grep = file_tools("/", ["grep"], limits=FileLimits(time_ms=2_000, entries_seen=2_000))[0]
    said = grep(NOBODY, pattern="PATH=", glob="proc/**")
    assert "environ" not in said
    assert "1 directory could not be read" in said


# --- sizes ---


def test_a_huge_file_is_read_page_by_page_within_bounds(bench):
    with open(bench.root / "huge", "wb") as file:
        file.write(b"first line\n")
        file.truncate(1 << 42)  # sparse: four terabytes to look at, a few kilobytes on disk
    file_text = bench.write("huge.log", b"".join(b"line %d\n" % number for number in range(1, 300_001)))
    assert file_text.stat().st_size > 3_000_000
    assert "huge is not text: binary" in bench.call("read", path="huge")
    page = bench.call("read", path="huge.log", offset=299_999)
    assert page == ("[huge.log, lines 299,999 to 300,000 of 300,000]\n299999\tline 299999\n300000\tline 300000")
    assert len(bench.call("read", path="huge.log", limit=1_000).encode()) < 30_000
    assert bench.call("grep", pattern="line 12345$") == "huge.log\n 12345: line 12345\n[1 file passed over, not text]"


def test_a_file_that_never_ends_is_left_at_the_bound(tmp_path):
    bench = Bench(tmp_path, limits=FileLimits(file_bytes=1_000_000, searched_bytes=1_000_000))
    bench.write("long.txt", b"x" * 99 + b"\n")
    with open(bench.root / "long.txt", "ab") as file:
        file.write(b"y" * 99 + b"\n")
        for _ in range(20):
            file.write((b"z" * 99 + b"\n") * 1_000)
    said = bench.call("read", path="long.txt", limit=1)
    assert said.splitlines()[0] == "[long.txt, lines 1 to 1 of a file with more than 10,000 lines; go on with offset=2]"
    error = bench.refused("read", path="long.txt", offset=15_000)
    assert (error.code, error.hint) == ("too_large", "use grep to find the place")
    assert "[1 file searched in part only, up to 1,000,000 bytes]" in bench.call("grep", pattern="y")


def test_a_huge_line_is_cut_and_can_be_paged(bench):
    bench.write("line.txt", b"a" * 5_000 + b"NEEDLE" + b"b" * 20_000_000)
    said = bench.call("read", path="line.txt")
    assert len(said) < 1_200
    assert said.endswith("[a line of 20,005,006 bytes]")
    assert "NEEDLEb" in bench.call("read", path="line.txt", column=5_001)
    assert len(bench.call("grep", pattern="NEEDLE", path="line.txt")) < 1_200


def test_a_tree_deeper_than_any_path_is_walked_to_a_bound(bench):
    folder = os.open(bench.root, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("deeper-yet", dir_fd=folder)
        below = os.open("deeper-yet", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    before = open_descriptors()
    try:
        said = bench.call("glob", pattern="**/deeper-yet/")
        assert said.count("deeper-yet/\n") >= 31
        assert said.endswith("[1 directory deeper than 32 levels not entered]")
        assert "[1 directory deeper than 32 levels not entered]" in bench.call("grep", pattern="harmless")
        assert bench.refused("read", path="/".join(["deeper-yet"] * 300) + "/x").code == "not_found"
        assert open_descriptors() == before
    finally:
        subprocess.run(["rm", "-rf", bench.root / "deeper-yet"], check=True)


def test_a_wide_directory_is_seen_up_to_a_bound_that_is_named(tmp_path):
    bench = Bench(tmp_path, limits=FileLimits(folder_entries=50, entries_seen=80))
    for number in range(120):
        bench.write(f"f{number}")
    said = bench.call("list", limit=10)
    assert "[10 entries shown, there are more: go on with offset=10]" in said
    assert "[1 directory with more than 50 entries, not seen whole]" in said
    for number in range(40):
        bench.write(f"more/d{number}/f")
        bench.write(f"more/d{number}/g")
    assert "[stopped after 80 entries: there may be more" in bench.call("glob", pattern="**/zzz", path="more")


def test_time_is_bounded_and_a_call_that_was_given_up_ends(tmp_path):
    bench = Bench(tmp_path, limits=FileLimits(time_ms=0))
    for number in range(200):
        bench.write(f"f{number}", "text")
    assert "[stopped after 0 s" in bench.call("grep", pattern="nothing")
    assert "[stopped after 0 s" in bench.call("glob", pattern="**")

    class GivenUp:
        blotted = None
        cancelled = True
        exclude = ()
        folder = None

    given_up = {tool.name: tool for tool in file_tools(bench.root)}
    assert "[stopped after 10 s" in given_up["grep"](GivenUp(), pattern="nothing")


@pytest.mark.guard(300)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}b", "(x+x+)+y", "a{1,900}{1,900}{1,900}"])
def test_no_expression_makes_a_search_endless(bench, pattern):
    bench.write("trap.txt", "a" * 200_000 + "!")
    assert bench.code("grep", pattern=pattern) in (None, "bad_pattern")


@pytest.mark.parametrize("pattern", ["[ab]*a[ab]{3000}[cd]", "[ab]*a[ab]{900}[cd]", "([ab]{30}){30}[cd]"])
def test_others_go_on_while_an_expensive_expression_is_searched_for(tmp_path, pattern):
    bench = Bench(tmp_path, limits=FileLimits(time_ms=1_000))
    letters = random.Random(7)
    bench.write("trap.txt", "".join(letters.choice("ab") for _ in range(1_000_000)) + "\n" + "ab" * 500_000)
    done = threading.Event()

    def search():
        bench.code("grep", pattern=pattern)
        done.set()

    begun = time.monotonic()
    thread = threading.Thread(target=search)
    thread.start()
    longest = 0.0
    while not done.is_set():
        before = time.monotonic()
        done.wait(0.005)
        longest = max(longest, time.monotonic() - before)
    thread.join()
    assert time.monotonic() - begun < 20  # it was over a minute for one file
    assert longest < 2  # the search held the interpreter for all of its time


def test_a_line_too_long_for_an_expression_is_searched_in_part_and_the_result_says_so(bench):
    bench.write("long.txt", "a" * 400_000 + "z\n")
    assert "no line matches" in (said := bench.call("grep", pattern="[ab]{900}[yz]"))
    assert "[1 line searched in part only, up to" in said
    assert "searched in part" not in bench.call("grep", pattern="z")


@pytest.mark.guard(120)
def test_rules_in_every_directory_do_not_make_a_walk_endless(tmp_path):
    bench = Bench(tmp_path, limits=FileLimits(time_ms=2_000))
    rules = "\n".join("**/" * 300 + f"a*b*c*{number}" for number in range(60))
    path = ""
    for _ in range(20):
        path += "a" * 50 + "/"
        bench.write(f"{path}.gitignore", rules)
        bench.write(f"{path}{'x' * 200}")
    begun = time.process_time()
    said = bench.call("glob", pattern="**/*")
    assert time.process_time() - begun < 10  # it was over 90 s
    assert "more rules in .gitignore than are heeded at once" in said or "stopped after 2 s" in said


@pytest.mark.guard(300)
@pytest.mark.parametrize("pattern", ["*a" * 400, "**/" * 300 + "x", "{a,b}" * 50, "[" * 500, "{" * 500, "?*" * 300])
def test_no_glob_makes_a_walk_endless(bench, pattern):
    bench.write("a" * 250)
    bench.write(".gitignore", "\n".join(f"*a{'*a' * 90}{number}" for number in range(2_000)))
    assert bench.code("glob", pattern=pattern) in (None, "bad_pattern")


def test_every_result_fits_below_the_size_that_is_shown_whole(bench):
    for number in range(900):
        bench.write(f"{'directory-with-a-long-name' * 4}/{number:04}{'x' * 150}.txt", "harmless é\n" * 3)
    bench.write("wide.txt", ("é" * 900 + "\n") * 300)
    for said in (
        bench.call("list", depth=3, limit=1_000),
        bench.call("glob", pattern="**", limit=1_000),
        bench.call("grep", pattern="harmless", limit=1_000, context=3),
        bench.call("grep", pattern="é", path="wide.txt", limit=1_000),
        bench.call("read", path="wide.txt", limit=1_000),
    ):
        assert len(said.encode()) < 32 * 1024
        assert "go on with offset=" in said


# --- the root itself ---


def test_the_root_is_the_directory_that_was_opened_whatever_takes_its_place(bench):
    bench.root.rename(bench.place / "moved")
    (bench.place / "root").symlink_to(bench.place)
    assert "harmless" in bench.call("read", path="inside.txt")
    assert bench.refused("read", path="secret.txt").code == "not_found"


@pytest.mark.parametrize("path", ["nowhere", "file", "a\0b"])
def test_a_root_that_cannot_be_opened_is_a_usage_error(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="the root"):
        file_tools(path)


def test_no_descriptor_is_left_open(bench):
    (bench.root / "out").symlink_to("../secret.txt")
    (bench.root / "near").symlink_to("sub/deep")
    os.mkfifo(bench.root / "pipe")
    before = open_descriptors()
    for path in (
        ".",
        "sub",
        "near",
        "inside.txt",
        "near/file.txt",
        "out",
        "pipe",
        "none",
        "inside.txt/x",
        "..",
        "near/../..",
    ):
        nothing_leaks(bench, path)
    assert open_descriptors() == before
    extra = file_tools(bench.root)
    assert open_descriptors() == before + 1
    del extra
    assert open_descriptors() == before


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.EINVAL])
def test_where_the_kernel_lacks_the_call_the_walk_takes_over(tmp_path, monkeypatch, code):
    def lacking(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(calls, "openat2", lacking)
    assert Root(tmp_path).means == "walk"


@pytest.mark.parametrize("means", MEANS)
def test_without_proc_files_are_opened_a_second_time_and_compared(tmp_path, monkeypatch, means):
    bench = Bench(tmp_path, means=means)
    bench.write("a/file.txt", "harmless")
    monkeypatch.setattr(root_module, "_again", lambda found: None)
    assert "harmless" in bench.call("read", path="a/file.txt")
    assert "a/file.txt" in bench.call("grep", pattern="harmless")
    real = root_module._same

    def swapped(fd, about):
        os.close(fd)
        return real(os.open(tmp_path / "secret.txt", os.O_RDONLY), about)

    monkeypatch.setattr(root_module, "_same", swapped)
    assert "replaced while it was being opened" in bench.refused("read", path="a/file.txt").message
    assert bench.call("grep", pattern=SECRET).startswith("no line matches")


def test_a_machine_without_the_means_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", frozenset())
    with pytest.raises(UsageError, match=f"{sys.platform!r} does not"):
        file_tools(tmp_path)
