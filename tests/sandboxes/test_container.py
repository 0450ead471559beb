"""The container sandbox, with an engine of our own that notes its words and really runs the command. What a real one
makes of them is in `test_real_container`."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import sys
from typing import Any

import pytest

from windlass.tools.context import ToolError
from windlass.tools.sandboxes.container import IMAGE, ContainerSandboxes, container_problem
from windlass.tools.sandboxes.folder_sandbox import FolderSandbox
from windlass.tools.sandboxes.sandbox import Access, Limits, Process

from .programs import alive, appeared, shell

ENGINE = r"""#!{python}
import json, os, subprocess, sys
words = sys.argv[1:]
if words[-1] == "true" and "--name" not in words:  # whether it runs anything at all
    sys.exit({other})
with open({log!r}, "a") as log:
    log.write(json.dumps({{"words": words, "env": dict(os.environ)}}) + "\n")
if words[0] != "run":
    sys.exit({other})
at = words.index({image!r})
env = {{}}
for option, value in zip(words, words[1:at]):
    if option == "--env":
        name, _, given = value.partition("=")
        env[name] = given if "=" in value else os.environ[name]
os.chdir(words[words.index("--workdir") + 1])
os.execvpe(words[at + 1], words[at + 1:], {{"PATH": "/usr/bin:/bin", **env}})
"""


def engine_at(folder: pathlib.Path, name: str = "podman", other: int = 0) -> None:
    path = folder / name
    path.write_text(ENGINE.format(python=sys.executable, log=str(folder / "log"), image=IMAGE, other=other))
    path.chmod(0o755)


def told(folder: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


@pytest.fixture
def engine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    made = tmp_path / "bin"
    made.mkdir()
    engine_at(made)
    monkeypatch.setenv("PATH", f"{made}:/usr/bin:/bin")
    return made


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "work"
    (made / ".git" / "hooks").mkdir(parents=True)
    return made


async def opened(root: pathlib.Path, **more: Any) -> FolderSandbox:
    return await ContainerSandboxes(**more).open("s", str(root))


async def test_a_process_runs_in_a_container_that_is_held_and_removed(engine, root):
    box = await opened(root, limits=Limits(processes=50, address_bytes=10**9))
    done = await box.run(shell("pwd; env | sort; cat; exit 3", stdin=b"in", env={"GIVEN": "a b"}))
    assert done.exit_code == 3
    lines = done.stdout.text.splitlines()
    assert lines[0] == str(root)
    assert {"GIVEN=a b", "HOME=/home/sandbox", "TMPDIR=/tmp"} <= set(lines)
    (run, removed) = [each["words"] for each in told(engine) if each["words"][0] in ("run", "rm")]
    text = " ".join(run)
    for words in (
        "--network none", "--read-only", "--cap-drop ALL", "--security-opt no-new-privileges", "--pull never",
        "--pids-limit 50", "--memory 1000000000", "--ulimit core=0:0", "--rm", "--init", "--ipc private",
        f"--volume {root}:{root}:rw", f"--volume {root}/.git/hooks:{root}/.git/hooks:ro",
    ):  # fmt: skip
        assert words in text
    assert removed == ["rm", "--force", run[run.index("--name") + 1]]
    await box.close()


async def test_a_secret_stands_in_no_command_line(engine, root):
    box = await opened(root, secrets=lambda name: f"value-of-{name}")
    done = await box.run(shell("echo $TOKEN", secrets={"TOKEN": "deploy"}))
    assert done.stdout.text == "value-of-deploy\n"
    assert all("value-of" not in json.dumps(each["words"]) for each in told(engine))
    with pytest.raises(ToolError, match="give it another name"):
        await box.run(shell("true", secrets={"LD_PRELOAD": "deploy"}))


async def test_what_is_given_has_no_power_over_the_engine(engine, root, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "canary")
    box = await opened(root)
    await box.run(shell("true", env={"DOCKER_HOST": "tcp://evil", "LD_PRELOAD": "/evil.so"}))
    for each in (one for one in told(engine) if one["words"][0] in ("run", "rm")):
        assert not {"CANARY_KEY", "LD_PRELOAD"} & set(each["env"])
        assert each["env"].get("DOCKER_HOST") is None


async def test_a_container_is_removed_also_when_the_run_is_given_up(engine, root):
    box = await opened(root)
    running = asyncio.ensure_future(box.run(shell("echo $$ > pid; sleep 600")))
    pid = int(await appeared(root / "pid"))
    running.cancel()
    await asyncio.wait([running])
    assert not alive(pid)
    assert told(engine)[-1]["words"][0] == "rm"


async def test_a_container_is_removed_also_if_its_supervisor_is_killed(engine, root):
    box = await opened(root)
    ended = await box.run(shell("echo $PPID $$ > pids; kill -9 $PPID; sleep 600"))
    assert ended.exit_code == -signal.SIGKILL
    assert not any(alive(int(pid)) for pid in (root / "pids").read_text().split())
    assert [each["words"][0] for each in told(engine)][-1] == "rm"


async def test_what_was_granted_is_mounted_and_hosts_are_refused(engine, root, tmp_path):
    box = await opened(root)
    (tmp_path / "more").mkdir()
    await box.run(shell("true", access=Access(writable=(str(tmp_path / "more"),))))
    assert f"{tmp_path}/more:{tmp_path}/more:rw" in told(engine)[-2]["words"]
    with pytest.raises(ToolError, match="needs bubblewrap"):
        await box.run(Process(argv=("true",), access=Access(hosts=("example.com",))))


async def test_an_engine_that_is_missing_or_does_not_answer_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert container_problem(IMAGE, None, str(tmp_path)) == "there is no podman or docker"
    engine_at(tmp_path, "docker", other=1)
    assert container_problem(IMAGE, None, f"{tmp_path}:") == "docker is there, but its engine does not answer"
    container_problem.cache_clear()
    with pytest.raises(ToolError, match="'container' cannot be used here"):
        await ContainerSandboxes().open("s", str(tmp_path))


def test_files_belong_to_whoever_runs_it(engine, root):
    from windlass.tools.sandboxes.container import Container

    docker = Container(str(root), "/usr/bin/docker", IMAGE, Limits())
    launch = docker.launch(Process(argv=("true",)), str(root), {}, None)
    assert f"{os.getuid()}:{os.getgid()}" in launch.argv
