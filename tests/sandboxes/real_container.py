"""A real engine for tests of the container sandbox: podman, over a store and an image of its own.

Nothing is downloaded: the image has empty folders, over which the programs of this machine are mounted read-only."""

from __future__ import annotations

import atexit
import functools
import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

IMAGE = "localhost/windlass-tests:1"
PATIENCE_S = 60
SHARED = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
"""Where the programs of this machine are."""
FOLDERS = ("dev", "etc", "home", "proc", "run", "sys", "tmp", "var")

ENGINE = """#!/bin/sh
export CONTAINERS_STORAGE_CONF={folder}/storage.conf CONTAINERS_CONF={folder}/containers.conf
exec {podman} "$@"
"""
STORAGE = """[storage]
driver = "vfs"
runroot = "{folder}/run"
graphroot = "{folder}/graph"
"""
CONTAINERS = """[containers]
volumes = [{volumes}]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
"""Runc, since crun refuses machines with both versions of control groups; no journal, since there may be none."""


@functools.cache
def engine() -> tuple[str, str | None]:
    """The path of an engine that works, or "", and why there is none."""
    podman, missing = shutil.which("podman"), [name for name in ("podman", "runc") if shutil.which(name) is None]
    if podman is None or missing:
        return "", f"there is no {' and no '.join(missing)}"
    folder = pathlib.Path(
        tempfile.mkdtemp(prefix="windlass-podman-", dir="/tmp")
    )  # sockets have no room for a long one
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = _written(folder, podman)
    bounds = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=512:512"]
    for words in (
        [path, "import", str(folder / "image.tar"), IMAGE],
        [path, "run", "--rm", *bounds, IMAGE, "/bin/true"],
    ):
        tried = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)
        if tried.returncode:
            return "", f"podman is there and runs nothing: {tried.stderr.decode(errors='replace').strip()[-300:]}"
    return path, None


def _written(folder: pathlib.Path, podman: str) -> str:
    """Writes the engine's program, its settings and its image; the program's path."""
    own = {sys.prefix, sys.base_prefix}
    shared = [*SHARED, *sorted(path for path in own if not path.startswith("/usr"))]
    volumes = ", ".join(f'"{path}:{path}:ro"' for path in shared if pathlib.Path(path).is_dir())
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    (folder / "containers.conf").write_text(CONTAINERS.format(volumes=volumes))
    with tarfile.open(folder / "image.tar", "w") as tar:
        for name in FOLDERS:
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(made, io.BytesIO())
    path = folder / "podman"
    path.write_text(ENGINE.format(folder=folder, podman=podman))
    path.chmod(0o755)
    return str(path)
