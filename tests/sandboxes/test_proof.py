"""The proof: under each confining sandbox programs do their worst, and their system calls show that nothing outside of
the folder was written and nobody was connected to."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import sys
from typing import Any

import pytest

from windlass.tools.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.tools.sandboxes.landlock import LandlockSandboxes
from windlass.tools.sandboxes.local import LocalSandboxes
from windlass.tools.sandboxes.sandbox import Process
from windlass.tools.sandboxes.visible_paths import beneath, home

from .escapes import REACHES, TRY, WRITES
from .tracing import Call, of_program, traced

MARK = "#hostile"
KINDS: dict[str, Any] = {"bubblewrap": BubblewrapSandboxes, "landlock": LandlockSandboxes}

if shutil.which("strace") is None:
    pytest.skip("there is no strace here", allow_module_level=True)


def hostile(outside: pathlib.Path, port: int) -> Process:
    """All that the other tests try one by one, in one program."""
    ways = [text.replace("OUT", repr(str(outside))).replace("NAME", f"proof-{os.getpid()}") for text in WRITES.values()]
    ways += [text.replace("PORT", str(port)).replace("SOCK", str(outside / "sock")) for text in REACHES.values()]
    ways += [
        "open('mine', 'w').write('x')",
        "os.rename('mine', 'mine2')",
        "subprocess.run(['touch', 'child'], check=True)",
    ]
    return Process(argv=(sys.executable, "-c", f"{MARK}\n{TRY}\nfor way in {ways!r}: attempt(way)"))


async def calls_under(kind: Any, tmp_path: pathlib.Path) -> tuple[list[Call], pathlib.Path, str]:
    root, outside = tmp_path / "work", tmp_path / "outside"
    for each in (root, outside):
        each.mkdir()
    (outside / "kept").write_text("kept")
    box = await kind().open("s", str(root))
    with socket.create_server(("127.0.0.1", 0)) as server:
        launch = await box.launch(hostile(outside, server.getsockname()[1]))
        calls = traced(launch, MARK, str(tmp_path / "log"))
    scratch = getattr(box._confinement, "_scratch", None)
    found = scratch.path if scratch is not None else ""
    await box.close()
    return calls, root, found


@pytest.mark.parametrize("name", KINDS)
async def test_nothing_outside_of_the_folder_is_written_and_nobody_is_connected_to(tmp_path, name):
    if (problem := KINDS[name]().problem()) is not None:
        pytest.skip(f"{name} cannot be used here: {problem}")
    calls, root, scratch = await calls_under(KINDS[name], tmp_path)
    own = ("/tmp", "/var/tmp", home(), "/dev") if name == "bubblewrap" else ("/dev/null", "/dev/tty")
    allowed = (str(root), scratch, *own)  # bubblewrap shows the scratch place as /tmp and home, its /dev is its own
    written = [call for call in calls if call.changes and call.worked]
    elsewhere = [
        call for call in written if not all(any(beneath(p, base) for base in allowed) for p in call.paths(str(root)))
    ]
    assert elsewhere == []
    reached = [call for call in calls if call.name in ("connect", "sendto", "sendmsg", "sendmmsg") and call.worked]
    assert [call for call in reached if "sun_path" not in call.arguments and "AF_INET" in call.arguments] == []
    # It was tried, and what is allowed was done: the proof looks at the right processes.
    assert sum(call.changes and not call.worked for call in calls) >= 10
    assert {"mine", "mine2", "child"} <= {os.path.basename(p) for call in written for p in call.paths(str(root))}
    assert (tmp_path / "outside" / "kept").read_text() == "kept"
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["kept"]


async def test_without_a_confining_sandbox_the_same_look_finds_what_was_done(tmp_path):
    calls, root, _ = await calls_under(LocalSandboxes, tmp_path)
    written = [call for call in calls if call.changes and call.worked]
    assert any(not beneath(path, str(root)) and "outside" in path for call in written for path in call.paths(str(root)))
    assert any(call.name == "connect" and call.worked and "AF_INET" in call.arguments for call in calls)


def test_a_child_is_followed_from_its_first_call_on_however_late_its_birth_is_noted():
    lines = [
        '7 execve("/bin/python", ["python", "-c", "# mark"], 0x0) = 0',
        '8 openat(AT_FDCWD, "early", O_WRONLY|O_CREAT) = 3',
        "7 vfork() = 8",
        '9 openat(AT_FDCWD, "elsewhere", O_WRONLY|O_CREAT) = 3',
        '8 openat(AT_FDCWD, "late", O_WRONLY|O_CREAT) = 3',
    ]
    found = of_program(lines, "mark")
    assert [path for call in found for path in call.paths("/w")] == ["/w/early", "/w/late"]
