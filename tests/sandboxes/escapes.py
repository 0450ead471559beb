"""What every confining sandbox is held to, whichever kind it is: a module of tests for each kind takes these over.

Programs here do their worst. A thing outside of the folder that they must not reach stands beside it (`outside`).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pathlib
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from windlass.tools.context import ToolError
from windlass.tools.sandboxes.folder_sandbox import FolderSandbox
from windlass.tools.sandboxes.sandbox import Access, Launch, Process
from windlass.tools.sandboxes.scratch import Scratch

from .programs import DAEMON, alive, appeared, script, shell

TRY = """
import ctypes, os, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
def attempt(text):
    try:
        exec(text, globals())
    except BaseException as error:
        return type(error).__name__
    return "DONE"
"""


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def outside(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "kept").write_text("kept")
    (made / "secret").write_text("canary-7261")
    return made


async def attempt(box: FolderSandbox, text: str, **more: object) -> str:
    """What came of a few lines of Python inside."""
    result = await box.run(script(f"{TRY}\nprint(attempt({text!r}))", **more))
    assert result.exit_code == 0, result.stderr.text
    return result.stdout.text.strip()


# --- it can be worked in ---


async def test_a_program_works_in_its_folder_and_in_a_tmp_and_home_of_its_own(box, root):
    done = await box.run(
        shell(
            "echo a > a && mkdir -p d/e && mv a d/e/b && ln -s d/e/b c && cat c && echo t > $TMPDIR/t && echo h > ~/h"
        )
    )
    assert (done.exit_code, done.stdout.text, done.stderr.text) == (0, "a\n", "")
    assert (root / "d" / "e" / "b").read_text() == "a\n"
    assert (await box.run(shell("cat $TMPDIR/t ~/h; rm -r d; ls"))).stdout.text == "t\nh\nc\n"
    assert not (pathlib.Path.home() / "h").exists()


async def test_exit_codes_outputs_input_and_programs_that_are_not_there_are_as_anywhere(box):
    told = await box.run(shell("cat; echo err >&2; exit 3", stdin=b"given"))
    assert (told.exit_code, told.stdout.text, told.stderr.text) == (3, "given", "err\n")
    assert (await box.run(shell("kill -TERM $$"))).exit_code in (-15, 128 + 15)
    with pytest.raises(ToolError, match="the program 'no-such-program' cannot be run: No such file or directory"):
        await box.run(Process(argv=("no-such-program",)))


async def test_a_terminal_works_inside(box):
    done = await box.run(script("import os; print(os.isatty(0), os.get_terminal_size().columns)", pty=True))
    assert done.stdout.text == "True 80\r\n"


async def test_daemons_are_gone_when_it_is_cancelled(box, root):
    marker = f"windlass-{os.getpid()}-{root.parent.name}"
    program = DAEMON.replace("time.sleep(600)", f"os.execvp('sleep', ['{marker}', '600'])").replace(
        "END", "time.sleep(600)"
    )
    running = asyncio.ensure_future(box.run(script(program)))
    async with asyncio.timeout(20):
        while not (root / "pids").exists() or not (pids := named(marker)):
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    assert [pid for pid in pids if alive(pid)] == []


def named(word: str) -> list[int]:
    """The processes of this machine whose first word is this."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().split(b"\0")[0] == word.encode():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


# --- files ---

WRITES = {
    "over a file": "open(OUT + '/kept', 'w')",
    "onto a file": "open(OUT + '/kept', 'a').write('x')",
    "a new file": "open(OUT + '/new', 'x')",
    "a folder": "os.mkdir(OUT + '/dir')",
    "a removal": "os.unlink(OUT + '/kept')",
    "a rename out": "open('mine', 'w').close(); os.rename('mine', OUT + '/mine')",
    "a rename in": "os.rename(OUT + '/kept', 'kept')",
    "a link out": "open('l', 'w').close(); os.link('l', OUT + '/l')",
    "a link in": "os.link(OUT + '/kept', 'hard'); open('hard', 'w').write('x')",
    "a symbolic link": "os.symlink('x', OUT + '/s')",
    "through a link": "os.symlink(OUT, 'way'); open('way/kept', 'w')",
    "through a link to a file": "os.symlink(OUT + '/kept', 'file'); open('file', 'w')",
    "through the root of itself": "open('/proc/self/root' + OUT + '/kept', 'w')",
    "through the root of another": "open('/proc/1/root' + OUT + '/kept', 'w')",
    "through its working directory": "open('/proc/self/cwd/../outside/kept', 'w')",
    "by shortening": "os.truncate(OUT + '/kept', 0)",
    "by shortening while reading": "os.close(os.open(OUT + '/kept', os.O_RDONLY | os.O_TRUNC))",
    "a node": "os.mknod(OUT + '/fifo', 0o10600)",
    "upwards": "open('../outside/kept', 'w')",
    "a system file": "open('/etc/passwd', 'a')",
    "a program": "open('/usr/bin/env', 'r+b')",
    "the kernel's settings": "open('/proc/sys/kernel/core_pattern', 'w').write('core')",
    "another's memory": "open('/proc/%d/mem' % os.getppid(), 'r+b')",
    "shared memory of all": "open('/dev/shm/NAME', 'w')",
    "the temporary folder of all": "open('/tmp/NAME', 'w')",
}


@pytest.mark.parametrize("way", WRITES)
async def test_nothing_outside_is_written(box, outside, root, way):
    name = f"windlass-{os.getpid()}-{root.parent.name}"
    before = picture(outside)
    text = WRITES[way].replace("OUT", repr(str(outside))).replace("NAME", name)
    came = await attempt(box, text)
    assert picture(outside) == before
    assert not is_there(f"/dev/shm/{name}")
    assert not is_there(f"/tmp/{name}")
    if way not in ("shared memory of all", "the temporary folder of all"):  # there may be private ones
        assert came in ("PermissionError", "OSError", "FileNotFoundError", "NotADirectoryError")


def is_there(path: str | pathlib.Path) -> bool:
    return os.path.lexists(path)


def picture(folder: pathlib.Path) -> dict[str, tuple[int, str]]:
    return {path.name: (path.stat().st_mode, path.read_text()) for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    "text",
    [
        "open(OUT + '/secret').read()",
        "os.listdir(OUT)",
        "open('/proc/self/root' + OUT + '/secret').read()",
        "open('/etc/shadow').read()",
        "open(os.path.join(HOME, '.ssh', 'id_canary')).read()",
        "open('/proc/PID/environ').read()",
        "open('/proc/PID/mem', 'rb')",
        "os.listdir('/proc/PID/fd')",
        "open('/proc/PID/cmdline').read() and 1 / (b'pytest' in open('/proc/PID/cmdline', 'rb').read())",
    ],
)
async def test_secrets_and_other_processes_are_not_read(box, outside, text):
    told = text.replace("OUT", repr(str(outside))).replace("HOME", repr(str(pathlib.Path.home())))
    assert await attempt(box, told.replace("PID", str(os.getpid()))) in (
        "PermissionError", "FileNotFoundError", "OSError", "ZeroDivisionError",
    )  # fmt: skip


async def test_a_home_is_hidden_but_for_the_toolchains(box):
    seen = await box.run(
        script(f"import os\ntry: print(os.listdir({str(pathlib.Path.home())!r}))\nexcept OSError: print([])")
    )
    names = set(eval(seen.stdout.text))
    assert names <= {".pyenv", ".cargo", ".rustup", ".local", ".nvm", ".bun", "go", ".sdkman"}


async def test_what_somebody_granted_is_written_and_nothing_beside_it(box, outside):
    access = Access(writable=(str(outside / "open"),))
    (outside / "open").mkdir()
    assert await attempt(box, f"open({str(outside / 'open' / 'x')!r}, 'w').write('x')", access=access) == "DONE"
    assert (outside / "open" / "x").read_text() == "x"
    await attempt(box, f"open({str(outside / 'kept')!r}, 'w')", access=access)
    await attempt(box, f"open({str(outside / 'open' / 'x')!r}, 'w')")
    assert ((outside / "kept").read_text(), (outside / "open" / "x").read_text()) == ("kept", "x")


# --- network ---


@pytest.fixture
def listener() -> Iterator[tuple[int, list[object]]]:
    """Somebody on this machine's loopback whom nobody inside may reach."""
    server = socket.create_server(("127.0.0.1", 0))
    came: list[object] = []

    def accept() -> None:
        while True:
            try:
                came.append(server.accept()[1])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1], came
    server.close()


REACHES = {
    "tcp": "socket.create_connection(('127.0.0.1', PORT), 2)",
    "tcp6": "socket.create_connection(('::1', PORT), 2)",
    "udp": "s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('192.0.2.1', 53)); s.send(b'x')",
    "a name": "socket.getaddrinfo('example.com', 80)",
    "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "the host of a virtual machine": "socket.socket(socket.AF_VSOCK)",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect('\\\\0ABSTRACT')",
    "a socket in a file": "socket.socket(socket.AF_UNIX).connect('SOCK')",
    "a program": "subprocess.run(['curl', '-sS', '-m', '2', 'http://127.0.0.1:PORT/'], check=True)",
}


@pytest.mark.parametrize("way", REACHES)
async def test_nobody_is_reached(box, outside, listener, way):
    port, came = listener
    abstract = f"windlass-{os.getpid()}-{port}"
    with socket.socket(socket.AF_UNIX) as named_one, socket.socket(socket.AF_UNIX) as filed:
        named_one.bind(f"\0{abstract}")
        named_one.listen()
        at = os.open(outside, os.O_RDONLY)
        filed.bind(f"/proc/self/fd/{at}/sock")
        os.close(at)
        filed.listen()
        text = REACHES[way].replace("PORT", str(port)).replace("ABSTRACT", abstract)
        came_of = await attempt(box, text.replace("SOCK", str(outside / "sock")))
        for each in (named_one, filed):
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.accept()
    assert came_of != "DONE"
    assert came == []


# --- other processes, and the kernel ---

POWERS = {
    "ptrace": "call('ptrace', 16, PID, 0, 0)",
    "reading memory": (
        "b = ctypes.create_string_buffer(8); v = (ctypes.c_size_t * 2)(ctypes.addressof(b), 8); "
        "call('process_vm_readv', PID, v, 1, v, 1, 0)"
    ),
    "mount": "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
    "a user namespace": "call('unshare', 0x10000000)",
    "a mount namespace": "call('unshare', 0x00020000)",
    "another's namespace": "call('setns', os.open('/proc/PID/ns/mnt', os.O_RDONLY), 0)",
    "chroot": "os.chroot('.')",
    "becoming another": "os.setuid(12345); open('/etc/shadow')",
    "a program with privileges": "subprocess.run(['su', '-s', '/bin/sh', 'nobody', '-c', 'true'], check=True, input=b'')",
    "a privilege of a file": "os.chmod(sys.argv[0] or 'x', 0o4755)",
    "a module": "call('syscall', 175, b'', 0, b'')",
    "a program for the kernel": "call('syscall', 321, 5, 0, 0)",
    "a key ring": "call('syscall', 250, 0, -3, 0)",
    "events of the machine": "call('syscall', 298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "a ring of calls": "call('syscall', 425, 1, ctypes.create_string_buffer(120))",
    "faults of pages": "call('syscall', 323, 0)",
    "a handle of a file": "call('syscall', 304, -100, b'', 0)",
    "typing into a terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "the name of the machine": "call('sethostname', b'x', 1)",
    "the time": "import time; time.clock_settime(0, 1)",
    "signals": "os.kill(PID, 0)",
    "a signal to all": "os.kill(TARGET, 9)",
}


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


@pytest.mark.parametrize("way", POWERS)
async def test_no_power_over_the_machine_or_over_other_processes(box, way):
    target = sleeper()
    try:
        text = POWERS[way].replace("PID", str(os.getpid())).replace("TARGET", str(target.pid))
        assert await attempt(box, text, pty=way.startswith("typing")) != "DONE"
        assert target.poll() is None
    finally:
        target.kill()
        target.wait()


async def test_shared_memory_of_the_machine_is_not_seen(box):
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x57_49_00_00 + os.getpid() % 65_536
    made = libc.shmget(key, 4096, 0o1600)
    assert made >= 0
    try:
        assert await attempt(box, f"call('shmget', {key}, 4096, 0o600)") != "DONE"
    finally:
        libc.shmctl(made, 0, None)


# --- environment ---


async def test_the_environment_holds_what_is_allowed_and_no_more(box, monkeypatch, root):
    for number in range(20):
        monkeypatch.setenv(f"CANARY_{number}_KEY", f"canary-{number}-value")
    monkeypatch.setenv("SANDBOXED_CANARY", "canary")
    looks = "import os\nprint(sorted(os.environ))\ntry: print(open('/proc/self/environ').read())\nexcept OSError: pass"
    told = await box.run(script(looks, env={"GIVEN": "1"}))
    assert "canary" not in told.stdout.text.lower()
    names = set(eval(told.stdout.text.splitlines()[0]))
    assert names <= {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "GIVEN"}


async def test_a_library_that_a_program_is_to_load_is_not_loaded_by_those_who_build_the_sandbox(box, root):
    traced = await box.run(shell("echo ran", env={"LD_PRELOAD": str(root / "evil.so"), "PYTHONPATH": str(root)}))
    assert traced.stdout.text == "ran\n"
    assert traced.stderr.text.count("evil.so") == 1, "only the program itself looked for it"


# --- names in the folder ---

GUARDED_WAYS = [
    "echo evil > .git/config",
    "mv .git aside; mkdir .git; echo evil > .git/config",
    "rm -rf .git; mkdir .git; echo evil > .git/config",
    "echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "rm -rf .git/hooks; ln -s /tmp .git/hooks",
    "echo evil > .new; mv .new .git/config",
    "ln .git/config other; echo evil > other",
    "mv .git aside; ln -s OUT .git",
    "echo evil > .windlass.toml",
    "mkdir .windlass; echo evil > .windlass/policy.toml",
    "mkdir -p .vscode; echo evil > .vscode/settings.json",
    "ln -s OUT .vscode",
    "echo evil > .envrc",
    "mkdir -p .github/workflows; echo evil > .github/workflows/x.yml",
    "echo evil > .git/modules/a/b/config",
    "mv .git/modules aside; mkdir -p .git/modules/a/b; echo evil > .git/modules/a/b/config",
    "echo evil > .git/modules/a/b/hooks/post-checkout",
    "echo evil > .git/modules/a/b/config.worktree",
    "mkdir .git/modules/a/b/info; echo evil > .git/modules/a/b/info/attributes",
]


@pytest.mark.parametrize("way", GUARDED_WAYS)
async def test_names_that_others_obey_are_as_they_were_afterwards(box, root, outside, way):
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("mine")
    (root / ".git" / "HEAD").write_text("ref: x")
    module = root / ".git" / "modules" / "a" / "b"
    (module / "hooks").mkdir(parents=True)
    (module / "config").write_text("mine")
    (module / "HEAD").write_text("ref: x")
    (outside / "config").write_text("outer")
    (outside / "settings.json").write_text("outer")
    before = picture(outside)
    await box.run(shell(way.replace("OUT", str(outside))))
    assert (root / ".git" / "config").read_text() == "mine"
    assert not (root / ".git").is_symlink()
    assert (module / "config").read_text() == "mine"
    assert [*(module / "hooks").iterdir(), *module.glob("config.worktree"), *module.glob("info/attributes")] == []
    assert list((root / ".git" / "hooks").iterdir()) == []
    for name in (".windlass.toml", ".windlass", ".envrc", ".vscode/settings.json", ".github/workflows"):
        assert not is_there(root / name)
    assert picture(outside) == before
    assert (await box.run(shell("echo fine > .git/HEAD"))).exit_code == 0


async def test_a_name_that_somebody_granted_is_written(box, root):
    access = Access(writable=(str(root / ".envrc"),))
    done = await box.run(shell("echo mine > .envrc", access=access))
    assert ((root / ".envrc").read_text(), done.notices) == ("mine\n", ())


# --- started by somebody else ---


async def test_a_command_line_for_others_confines_and_guards_as_well(box, root, outside):
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("mine")
    text = f"echo x > .envrc; echo evil > .git/config; echo in > a; echo y > {outside}/kept; env; exit 3"
    launch = await box.launch(shell(text))
    done = started(launch)
    assert done.returncode == 3
    assert ((root / ".git" / "config").read_text(), (root / "a").read_text()) == ("mine", "in\n")
    assert (outside / "kept").read_text() == "kept"
    assert not is_there(root / ".envrc")
    assert "windlass: a protected name appeared and was given another one: .envrc.refused\n" in done.stderr
    assert "CANARY" not in done.stdout
    with pytest.raises(ToolError, match="the program 'no-such-program' cannot be run"):
        await box.launch(Process(argv=("no-such-program",)))


def started(launch: Launch) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        launch.argv, cwd=launch.cwd, env={**launch.env, "CANARY": "1"}, capture_output=True, text=True, check=False
    )


async def test_a_scratch_place_that_is_held_stays_and_one_that_is_left_behind_is_removed(box, root):
    launch = await box.launch(
        shell("echo x > $TMPDIR/x; echo up > up; while [ ! -e go ]; do sleep 0.01; done; cat $TMPDIR/x")
    )
    running = subprocess_of(launch)
    await appeared(root / "up")
    scratch = box._confinement._scratch.path
    await box.close()
    assert is_there(scratch)
    (root / "go").touch()
    assert running.communicate()[0] == "x\n"
    os.utime(scratch, (0, 0))
    Scratch().close()
    assert not is_there(scratch)


def subprocess_of(launch: Launch) -> subprocess.Popen[str]:
    return subprocess.Popen(launch.argv, cwd=launch.cwd, env=launch.env, stdout=subprocess.PIPE, text=True)
