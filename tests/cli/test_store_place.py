"""Where the store lies that nobody has named, what a folder from elsewhere cannot do with it, and who may read it."""

from __future__ import annotations

import asyncio
import os
import pathlib
import stat
import subprocess
from collections.abc import Iterator

import pytest

from windlass.cli import store_place
from windlass.events.errors import UsageError
from windlass.store import open_store
from windlass.store.base import InboxCommand, Key
from windlass.store.jsonl.store import JsonlStore

from . import work
from .terminal import PROGRAM


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with agents, and a home of its own."""
    monkeypatch.delenv("WINDLASS_STORE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    return work.make_folder(tmp_path / "work")


def ran(folder: pathlib.Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [*PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def files_under(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    return (path for path in folder.rglob("*") if "__pycache__" not in path.parts)


def test_a_store_that_nobody_named_lies_in_the_state_folder_for_its_owner_alone(
    folder: pathlib.Path, tmp_path: pathlib.Path
):
    before = set(files_under(folder))
    told = ran(folder, "run", "--agent", "agents.py:free", "--session", "march", "hello")
    assert "session march in the store of this workspace" in told
    assert set(files_under(folder)) == before, "nothing is put into the workspace"
    made = list(files_under(tmp_path / "state"))
    assert {path.name for path in made if path.is_file()} == {"windlass.db"}
    for path in made:
        mode = path.stat().st_mode
        assert stat.S_IMODE(mode) == (0o700 if path.is_dir() else 0o600), path
    assert "march" in ran(folder, "ps")
    doctor = subprocess.run([*PROGRAM, "doctor", "--json"], cwd=folder, capture_output=True, text=True, check=False)
    (file,) = (path for path in made if path.is_file())
    assert f"{file}: 1 session" in doctor.stdout


def test_workspaces_have_stores_of_their_own(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    inner = folder / "repository" / "deep"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    alone = store_place.default_place()
    (folder / "repository" / ".git").mkdir()
    of_repository = store_place.default_place()
    assert alone != of_repository
    monkeypatch.chdir(folder / "repository")
    assert store_place.default_place() == of_repository
    assert of_repository.parent.name.startswith("repository-")
    monkeypatch.setenv("XDG_STATE_HOME", "relative/paths/do/not/count")
    assert store_place.default_place().is_relative_to(pathlib.Path("~/.local/state/windlass").expanduser())


def test_a_state_folder_that_others_may_write_to_is_refused(folder: pathlib.Path, tmp_path: pathlib.Path):
    room = tmp_path / "state" / "windlass"
    room.mkdir(parents=True)
    room.chmod(0o777)
    told = ran(folder, "run", "--agent", "agents.py:free", "hello", code=2)
    assert "is no folder that this user alone may write to" in " ".join(told.split())


# --- looking makes nothing


@pytest.mark.parametrize(
    "verb", [["ps"], ["show", "-"], ["logs", "-"], ["cost"], ["verify"], ["inspect", "-"], ["doctor"]]
)
@pytest.mark.parametrize("given", [[], ["--store", "new.db"], ["--store", "jsonl:empty"], ["--store", "new.jsonl.d"]])
def test_verbs_that_look_make_no_store(verb: list[str], given: list[str], folder: pathlib.Path, tmp_path: pathlib.Path):
    (folder / "empty").mkdir()
    before = set(files_under(tmp_path))
    done = subprocess.run([*PROGRAM, *verb, *given], cwd=folder, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert set(files_under(tmp_path)) == before


# --- stores that somebody else has put there


def test_a_folder_with_links_is_no_store(tmp_path: pathlib.Path):
    precious = tmp_path / "authorized_keys"
    precious.write_text("precious")
    planted = tmp_path / "windlass.db"

    async def refused() -> None:
        with pytest.raises(UsageError):
            await open_store(planted)

    for name in ("lock", "windlass.json", "windlass.json.part"):
        planted.mkdir()
        (planted / name).symlink_to(precious)
        asyncio.run(refused())
        (planted / name).unlink()
        planted.rmdir()
    planted.symlink_to(precious)
    asyncio.run(refused())
    assert precious.read_text() == "precious"


@pytest.mark.parametrize(
    "link",
    [
        "tenants",
        "tenants/default",
        "tenants/default/sessions",
        "tenants/default/sessions/march",
        "tenants/default/sessions/march/log.jsonl",
        "tenants/default/sessions/march/log.jsonl.part",
        "tenants/default/sessions/march/lease.json.part",
        "tenants/default/sessions/march/snapshots",
        "tenants/default/blobs",
    ],
)
async def test_nothing_in_a_store_is_reached_through_a_link(link: str, tmp_path: pathlib.Path):
    await asyncio.to_thread(_plant, tmp_path, link)
    with pytest.raises(UsageError, match="is no file or folder of a store, but a link or a device"):
        await _used(tmp_path / "s.jsonl.d")
    assert await asyncio.to_thread(_contents, tmp_path / "elsewhere") == {"precious": "precious"}


async def _used(place: pathlib.Path) -> None:
    store = await JsonlStore.open(place)
    key = Key("default", "march")
    try:
        await store.blobs.put("default", b"x")
        await store.log.create(key)
        await store.inbox.send(key, InboxCommand(command_id="c", at_ms=0, data=b""))
        await store.leases.claim(key, runner="r", ttl_ms=0, now_ms=0)
    finally:
        await store.close()


def _plant(tmp_path: pathlib.Path, link: str) -> None:
    """A store with a link in it that leads out."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("precious")
    root = tmp_path / "s.jsonl.d"
    session = root / "tenants/default/sessions/march"
    session.mkdir(parents=True)
    (root / "windlass.json").write_text('{"windlass":"jsonl store","format":1}')
    (session / "session.json").write_text('{"tenant":"default","session":"march"}')
    (session / "inbox.jsonl").touch()
    (session / "log.jsonl").touch()
    place = root / link
    if place.is_dir():
        os.rename(place, tmp_path / "moved")
    else:
        place.unlink(missing_ok=True)
    is_file = place.suffix in (".jsonl", ".part")
    place.symlink_to(elsewhere / "precious" if is_file else elsewhere)


def _contents(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_sqlite_opens_no_links_either(tmp_path: pathlib.Path):
    asyncio.run(_make(tmp_path / "a.db"))
    precious = tmp_path / "precious"
    for name in ("a.db-wal", "a.db-shm", "a.db-journal", "b.db"):
        precious.write_text("precious")
        (tmp_path / name).symlink_to(precious)
        path = tmp_path / ("b.db" if name == "b.db" else "a.db")
        with pytest.raises(UsageError, match="is a link, and a store is not reached through one"):
            asyncio.run(_make(path))
        (tmp_path / name).unlink()
        assert precious.read_text() == "precious"
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(UsageError, match="is no ordinary file"):
        asyncio.run(_make(tmp_path / "pipe.db"))


async def _make(path: pathlib.Path) -> None:
    await (await open_store(path)).close()


def test_an_export_is_for_its_owner_alone(folder: pathlib.Path):
    ran(folder, "run", "--agent", "agents.py:free", "--session", "march", "hello")
    precious = folder / "precious"
    precious.write_text("precious")
    (folder / "march.jsonl.part").symlink_to(precious)
    ran(folder, "export", "march", "march.jsonl")
    assert stat.S_IMODE((folder / "march.jsonl").stat().st_mode) == 0o600
    assert precious.read_text() == "precious"


def test_folders_above_it_are_made_for_their_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "var" / "state"))
    before = os.umask(0)
    try:
        store_place.make_room()
    finally:
        os.umask(before)
    for folder in ("var", "var/state", "var/state/windlass"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
