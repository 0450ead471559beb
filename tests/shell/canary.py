"""Runs shell texts for real, one after another, and says what each of them changed, reached or left behind.

This file is a program: it gets texts as JSON, makes a workspace full of traps beneath a folder, runs every text there
with bash, and prints its findings as JSON. It imports nothing of the project, so that it runs in a namespace of its own.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GIT = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"]
RUN_SECONDS = 20
END_SECONDS = 3
FILES = {
    "a.py": "def one():\n    return 1\n\n\ndef two():\n    return 'x'\n",
    "b.txt": "one\ntwo\nabc\n",
    "my file.txt": "blanks\n",
    "-dash.txt": "dash\n",
    "enc.txt": "aGVsbG8K\n",
    "log.txt": "a:1:error\nb:2:fine\nb:2:fine\nc:3:error\n",
    "data.json": '{"a": {"b": 1}}\n',
    "src/main.py": "def main():\n    pass\n",
    "dir/x.txt": "x\n",
    ".env": "SECRET=1\n",
    "--output=stolen": "a file that is named like an option\n",
    "Makefile": "all:\n\ttouch CANARY\n",
}
TRAP = '#!/bin/sh\ntouch "$CANARY_HOME/CANARY"\n'
TRAPS = ("ls", "evil", "git", "src/ls", "cat", "x")
GIT_TRAPS = "[core]\n\tfsmonitor = ./evil\n\tpager = ./evil\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = ./evil\n[format]\n\tpretty = %G?\n"


def furnish(top: pathlib.Path) -> pathlib.Path:
    """A workspace with files, a repository and traps."""
    ws = top / "ws"
    for name, text in FILES.items():
        (ws / name).parent.mkdir(parents=True, exist_ok=True)
        (ws / name).write_text(text)
    for name in ("init -q", "add a.py b.txt src", "commit -qm first"):
        subprocess.run([*GIT, *name.split()], cwd=ws, check=True, capture_output=True)
    (ws / "a.py").write_text(FILES["a.py"] + "# changed\n")
    with (ws / ".git/config").open("a") as config:
        config.write(GIT_TRAPS)
    for name in TRAPS:
        (ws / name).write_text(TRAP)
        (ws / name).chmod(0o755)
    home = top / "home"
    home.mkdir()
    for name in (".bashrc", ".bash_profile", ".profile", ".bash_env"):
        (home / name).write_text(TRAP)
    (home / ".gitconfig").write_text("[core]\n\tpager = touch CANARY\n")
    (ws / "link").symlink_to("../home")
    return ws


def snapshot(top: pathlib.Path) -> dict[str, list[int]]:
    """Everything beneath a folder that a change would show in. When something was last read is left out."""
    found: dict[str, list[int]] = {}
    stack = [str(top)]
    while stack:
        place = stack.pop()
        stat = os.lstat(place)
        found[place] = [stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_uid]
        if (stat.st_mode & 0o170000) == 0o040000:
            stack += (entry.path for entry in os.scandir(place))
    return found


def reached() -> list[int]:
    """How often this network has been used so far: connections, datagrams, and addresses without a route."""
    try:
        lines = pathlib.Path("/proc/net/snmp").read_text().splitlines()
    except OSError:
        return []
    found = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        part = names.split(":")[0]
        found.update(
            {f"{part} {name}": int(value) for name, value in zip(names.split()[1:], values.split()[1:], strict=True)}
        )
    return [found[name] for name in ("Tcp ActiveOpens", "Udp OutDatagrams", "Udp NoPorts", "Ip OutNoRoutes")]


def processes() -> set[str]:
    """The processes that can be seen here and still run."""
    return {name for name in os.listdir("/proc") if name.isdecimal() and running(name)}


def running(name: str) -> bool:
    """Whether a process is more than a name that nobody has taken off the list yet."""
    try:
        return pathlib.Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def left_behind(there: set[str]) -> list[str]:
    """The processes that do not end by themselves within a while; they are ended then."""
    until = time.monotonic() + END_SECONDS
    while (left := processes() - there) and time.monotonic() < until:
        time.sleep(0.01)
    for name in left:
        os.kill(int(name), signal.SIGKILL)
    return sorted(left)


def run(text: str, ws: pathlib.Path, env: dict[str, str], *, alone: bool) -> dict[str, object]:
    """Runs one text, and says what is different then."""
    top = ws.parent
    before, net, there = snapshot(top), reached(), processes()
    child = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-c", text],
        cwd=ws,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    late = False
    try:
        child.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        late = True
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    after = snapshot(top)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return {
        "changed": [name.removeprefix(str(top)) for name in changed],
        "reached": alone and reached() != net,
        "left": left_behind(there) if alone else [],
        "late": late,
        "exit": child.returncode,
    }


def main() -> None:
    asked = json.load(sys.stdin)
    findings = []
    alone = bool(asked["alone"])
    top = pathlib.Path(tempfile.mkdtemp(dir=asked["beneath"]))
    env = {"PATH": os.environ["PATH"], "HOME": str(top / "home"), "CANARY_HOME": str(top / "home"), **asked["env"]}
    ws = furnish(top)
    for text in asked["texts"]:
        found = run(text, ws, env, alone=alone)
        findings.append(found)
        if found["changed"]:
            shutil.rmtree(top)
            top.mkdir()
            ws = furnish(top)
    print(json.dumps(findings))


if __name__ == "__main__":
    main()
