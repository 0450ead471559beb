"""The confining sandboxes for a user without privileges: if the tests run as root, they become nobody for this."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from windlass.tools.sandboxes import bubblewrap, confine, landlock, visible_paths
from windlass.tools.sandboxes.sandbox import Launch, Process

NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
TEXT = "id -u; echo x > a; cat a; (echo y > /etc/x) 2>/dev/null; cat /etc/shadow 2>/dev/null; su root -c id </dev/null 2>&1"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A folder, scripts and an interpreter that nobody can reach, too."""
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))  # what TMPDIR names may be for its owner alone
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    script = shutil.copy(confine.__file__, folder / "confine.py")
    for name, value in (("PATH", "/usr/bin:/bin"), ("HOME", "/home/nobody-here")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "executable", SYSTEM_PYTHON)
    monkeypatch.setattr(bubblewrap, "CONFINE", str(script))
    monkeypatch.setattr(confine, "__file__", str(script))
    monkeypatch.setattr(visible_paths, "_toolchains", lambda: ())
    root = folder / "work"
    root.mkdir()
    yield root
    shutil.rmtree(folder)


def as_nobody(launch: Launch) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        launch.argv, cwd=launch.cwd, env=launch.env, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True,
        text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(bubblewrap.Bubblewrap, bubblewrap.bubblewrap_problem), (landlock.Landlock, landlock.landlock_problem)],
    ids=["bubblewrap", "landlock"],
)
def test_a_user_without_privileges_is_confined_as_well(place, kind, problem):
    if os.getuid() != 0:
        return  # then all the other tests are about such a user
    if not os.path.exists(SYSTEM_PYTHON) or problem() is not None:
        pytest.skip(f"there is no {SYSTEM_PYTHON} that nobody could run, or no such sandbox")
    inside = kind(str(place))
    for path in (place, inside._scratch.path, inside._scratch.tmp, inside._scratch.home):
        os.chown(path, NOBODY, NOBODY)
    done = as_nobody(inside.launch(Process(argv=("/bin/sh", "-c", TEXT)), str(place), {"PATH": "/usr/bin:/bin"}, None))
    lines = done.stdout.splitlines()
    assert lines[:2] == [str(NOBODY), "x"], done.stderr
    assert not any(line.startswith(("root:", "uid=0")) for line in lines)
    assert (place / "a").stat().st_uid == NOBODY
    assert not pathlib.Path("/etc/x").exists()
