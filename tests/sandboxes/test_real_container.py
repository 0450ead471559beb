"""The container sandbox with a real engine, where podman can be run: programs do their worst in it.

A container takes half a second, so all ways of one kind are tried in one, each by a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

from windlass.tools.context import ToolError
from windlass.tools.sandboxes.container import ContainerSandboxes, container_problem
from windlass.tools.sandboxes.folder_sandbox import FolderSandbox
from windlass.tools.sandboxes.sandbox import Access, Process

from . import escapes, real_container
from .escapes import GUARDED_WAYS, POWERS, REACHES, TRY, WRITES, is_there, picture, sleeper
from .programs import alive, appeared, script, shell

ENGINE, PROBLEM = real_container.engine()
if PROBLEM is not None:
    pytest.skip(f"no container can be run here: {PROBLEM}", allow_module_level=True)

root, outside, listener = escapes.root, escapes.outside, escapes.listener

EACH = """
import json
came = {}
for way, text in json.loads(sys.stdin.read()).items():
    inner, outer = os.pipe()
    if os.fork() == 0:
        os.write(outer, attempt(text).encode())
        os._exit(0)
    os.close(outer)
    came[way] = os.read(inner, 1000).decode()
    os.wait()
print(json.dumps(came))
"""
REFUSED = {"PermissionError", "OSError", "FileNotFoundError", "NotADirectoryError"}
ITS_OWN = {
    "shared memory of all": "the container has its own",
    "the temporary folder of all": "the container has its own",
    "another's memory": "there the parent is the container's own first process",
}
LEFT_TO_THE_ENGINE = {
    "a user namespace": "which gives nothing there: it has no more rights over what is outside",
    "a key ring": "of the container's own user and session",
}


@pytest.fixture
def box(root: pathlib.Path) -> FolderSandbox:
    return ContainerSandboxes(engine=ENGINE, image=real_container.IMAGE)._made(str(root))


async def attempts(box: FolderSandbox, ways: dict[str, str]) -> dict[str, str]:
    """What came of a few lines of Python each, tried side by side in one container."""
    done = await box.run(script(f"{TRY}\n{EACH}", stdin=json.dumps(ways).encode()))
    assert done.exit_code == 0, done.stderr.text
    found: dict[str, str] = json.loads(done.stdout.text)
    assert found.keys() == ways.keys()
    return found


async def test_a_program_works_in_its_folder_and_in_a_tmp_and_home_of_its_own(box, root):
    done = await box.run(shell("echo a > a && echo t > $TMPDIR/t && echo h > ~/h; cat - a; pwd; exit 3", stdin=b"in\n"))
    assert (done.exit_code, done.stdout.text) == (3, f"in\na\n{root}\n")
    assert ((root / "a").read_text(), (root / "a").stat().st_uid) == ("a\n", os.getuid())
    assert (await box.run(shell("cat $TMPDIR/t ~/h"))).stdout.text == "t\nh\n"
    assert not (pathlib.Path.home() / "h").exists()
    terminal = await box.run(script("import os; print(os.isatty(0), os.get_terminal_size().columns)", pty=True))
    assert "True 80" in terminal.stdout.text
    scratch = box._confinement._scratch.path
    await box.close()
    assert not is_there(scratch)


async def test_nothing_outside_is_written(box, outside, root):
    name = f"windlass-{os.getpid()}-{root.parent.name}"
    before = picture(outside)
    came = await attempts(
        box, {way: text.replace("OUT", repr(str(outside))).replace("NAME", name) for way, text in WRITES.items()}
    )
    assert picture(outside) == before
    assert not is_there(f"/dev/shm/{name}")
    assert not is_there(f"/tmp/{name}")
    assert {way: what for way, what in came.items() if what not in REFUSED and way not in ITS_OWN} == {}


async def test_nobody_is_reached(box, outside, listener):
    port, came = listener
    ways = {
        way: text.replace("PORT", str(port)).replace("ABSTRACT", "x").replace("SOCK", str(outside / "sock"))
        for way, text in REACHES.items()
    }
    assert [way for way, what in (await attempts(box, ways)).items() if what == "DONE"] == []
    assert came == []


async def test_no_power_over_the_machine_or_over_other_processes(box):
    target = sleeper()
    try:
        ways = {
            way: text.replace("PID", str(os.getpid())).replace("TARGET", str(target.pid))
            for way, text in POWERS.items()
            if not way.startswith("typing")
        }
        came = await attempts(box, ways)
        assert target.poll() is None
    finally:
        target.kill()
        target.wait()
    assert [way for way, what in came.items() if what == "DONE" and way not in LEFT_TO_THE_ENGINE] == []


async def test_files_and_variables_outside_are_not_read(box, outside, monkeypatch):
    monkeypatch.setenv("SANDBOXED_CANARY_KEY", "canary-in-the-environment")
    ways = {
        "a file": f"open({str(outside / 'secret')!r}).read()",
        "a folder": f"os.listdir({str(outside)!r})",
        "passwords": "open('/etc/shadow').read()",
        "a home": f"open({str(pathlib.Path.home() / '.bashrc')!r}).read()",
        "the environment of whoever runs it": f"open('/proc/{os.getpid()}/environ').read()",
    }
    assert "DONE" not in (await attempts(box, ways)).values()
    assert "canary" not in (await box.run(shell("env; cat /proc/1/environ"))).stdout.text


async def test_names_that_others_obey_are_as_they_were_afterwards(box, root, outside):
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("mine")
    before = picture(outside)
    await box.run(shell("; ".join(f"({way})" for way in GUARDED_WAYS).replace("OUT", str(outside))))
    assert ((root / ".git" / "config").read_text(), list((root / ".git" / "hooks").iterdir())) == ("mine", [])
    assert [name for name in (".windlass.toml", ".windlass", ".envrc", ".vscode") if is_there(root / name)] == []
    assert picture(outside) == before


async def test_what_is_unseen_is_covered_and_what_is_granted_is_written(box, root, outside):
    for name in ("key.pem", "keys/one"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("canary")
    (outside / "open").mkdir()
    done = await box.run(
        shell(
            f"cat key.pem keys/one; echo x > {outside}/open/x; echo y > {outside}/kept; grep -r canary . | wc -l",
            unseen=(str(root / "key.pem"), str(root / "keys")),
            access=Access(writable=(str(outside / "open"),)),
        )
    )
    assert done.stdout.text == "0\n"
    assert ((outside / "open" / "x").read_text(), (outside / "kept").read_text()) == ("x\n", "kept")


async def test_a_secret_is_in_the_environment_of_the_program_and_in_no_command_line(root):
    made = ContainerSandboxes(engine=ENGINE, image=real_container.IMAGE, secrets=lambda name: f"value-of-{name}")
    box = await made.open("s", str(root))
    running = asyncio.ensure_future(
        box.run(shell("echo $TOKEN > up; while [ ! -e go ]; do sleep 0.01; done", secrets={"TOKEN": "deploy"}))
    )
    assert await appeared(root / "up") == "value-of-deploy\n"
    lines = command_lines()
    (root / "go").touch()
    assert (await running).ok
    assert [line for line in lines if b"value-of-deploy" in line] == []


def command_lines() -> list[bytes]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            found.append(path.read_bytes())
    return found


async def test_a_container_is_gone_when_the_run_is_given_up(box, root):
    running = asyncio.ensure_future(box.run(shell("setsid sleep 600 & echo up > up; sleep 600")))
    await appeared(root / "up")
    (name,) = containers()
    pids = [int(pid) for pid in _engine("top", name, "hpid").split()[1:]]
    assert len(pids) >= 3
    running.cancel()
    await asyncio.wait([running])
    assert ([pid for pid in pids if alive(pid)], containers()) == ([], [])


def containers() -> list[str]:
    return _engine("ps", "--all", "--format", "{{.Names}}").split()


def _engine(*words: str) -> str:
    return subprocess.run([ENGINE, *words], capture_output=True, text=True, check=True).stdout


async def test_a_program_that_is_not_there_is_said(box):
    ended = await box.run(Process(argv=("no-such-program",)))
    assert (ended.ok, "No such file" in ended.stderr.text or "not found" in ended.stderr.text) == (False, True)


async def test_an_engine_that_runs_nothing_is_said_before_anything_is_asked_of_it(tmp_path, monkeypatch):
    broken = tmp_path / "podman"
    broken.write_text(f"#!{sys.executable}\nimport os, sys\nif 'run' in sys.argv: sys.exit('crun: no cgroups here')\n"
                      f"os.execv({ENGINE!r}, [{ENGINE!r}, *sys.argv[1:]])\n")  # fmt: skip
    broken.chmod(0o755)
    told = container_problem(real_container.IMAGE, str(broken), "")
    assert told == "podman is there, but it runs no container: crun: no cgroups here"
    with pytest.raises(ToolError, match="cannot be used here: podman is there, but it runs no container"):
        await ContainerSandboxes(engine=str(broken), image=real_container.IMAGE).open("s", str(tmp_path))
