"""Folders and terminals that the tests of the command line share; each is made once for a module."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable, Iterator

import pytest

from windlass.store import open_store

from . import work
from .screens import COLUMNS, Place, copied
from .terminal import Terminal


@pytest.fixture(autouse=True)
def named_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands here work on a store in their folder; where it lies if none is named has tests of its own."""
    monkeypatch.setenv("WINDLASS_STORE", "windlass.db")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with agents and a store full of sessions; nobody may change it."""
    return work.make(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The same with a store that holds nothing."""
    folder = work.make_folder(tmp_path_factory.mktemp("empty"))

    async def touch() -> None:
        await (await open_store(folder / "windlass.db")).close()

    asyncio.run(touch())
    return folder


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The same without a store."""
    return work.make_folder(tmp_path_factory.mktemp("bare"))


@pytest.fixture
def place(
    made: pathlib.Path, empty: pathlib.Path, bare: pathlib.Path, tmp_path: pathlib.Path
) -> Callable[[Place], pathlib.Path]:
    """A copy of one of these folders, to be changed."""
    found = {"made": made, "empty": empty, "bare": bare}
    return lambda name: copied(found[name], tmp_path / name)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal of 80 columns, for one command after the other."""
    with Terminal(tmp_path_factory.mktemp("home"), columns=COLUMNS) as terminal:
        yield terminal
