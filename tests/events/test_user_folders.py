"""Where a user's own files lie, in odd accounts: never in a folder called `~` of the workspace."""

from __future__ import annotations

import os
import pathlib
import pwd

import pytest

import windlass
from windlass.events.errors import UsageError
from windlass.events.user_folders import HOMELESS, cache_folder, expanded, home_folder, is_homeless, state_folder
from windlass.mcp.login.kept_logins import KeptLogins
from windlass.mcp.server import McpServer
from windlass.mcp.trust import TrustRecords, key_of, sight_of
from windlass.models.embedded.model import cache_dir
from windlass.skills.catalogue import catalogue
from windlass.skills.config import Skills
from windlass.store import open_store


@pytest.fixture
def homeless(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A workspace, for a user of whom the system knows no home."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "WINDLASS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("given", [None, "", "relative"])
def test_a_home_that_is_not_named_is_the_one_that_the_system_knows(monkeypatch, given):
    monkeypatch.delenv("HOME")
    if given is not None:
        monkeypatch.setenv("HOME", given)
    monkeypatch.setenv("XDG_CACHE_HOME", given or "")
    known = pwd.getpwuid(os.getuid()).pw_dir
    assert home_folder() == known
    assert cache_folder() == os.path.join(known, ".cache")
    assert (expanded("~"), expanded("~/a")) == (known, os.path.join(known, "a"))


def test_a_named_home_is_taken_as_it_is(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    assert (state_folder(), expanded("~/a"), expanded("a/~")) == ("/nonexistent/.local/state", "/nonexistent/a", "a/~")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_folder() == "/state"


def test_without_a_home_nothing_of_the_workspace_is_taken_for_the_users_own(homeless):
    server = McpServer(name="shop", command="shop")
    key, sight = key_of(server, "helper"), sight_of(server)
    TrustRecords(str(homeless / "~" / ".local" / "state" / "windlass" / "mcp")).trust(server, key, sight, by="a person")
    skill = homeless / "~" / ".agents" / "skills" / "planted"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: planted\ndescription: Not the user's own.\n---\nDo it.\n")
    assert home_folder() == HOMELESS
    assert is_homeless(state_folder())
    assert TrustRecords().of(key) is None
    assert TrustRecords().launch_standing(server, key) == "new"
    assert KeptLogins().of("https://shop.example.com/mcp") is None
    assert catalogue(Skills(), workspace=str(homeless), trusted=True).skills == ()
    with pytest.raises(OSError, match="no-home-folder-is-known-set-HOME"):
        TrustRecords().trust(server, key, sight)
    with pytest.raises(UsageError, match="no home folder is known: set HOME"):
        cache_dir()
    assert sorted(path.name for path in homeless.iterdir()) == ["~"]


async def test_without_a_home_an_agent_works_in_a_store_that_is_named(homeless):
    from windlass.testing.scripted import ScriptedModel

    agent = windlass.Agent("a", ScriptedModel(["done"]), skills=True, mcp=True)
    async with windlass.open("work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", workspace=".", trusted=True)
        await session.prompt("go")
        assert (await session.result()).text == "done"
    assert not (homeless / "~").exists()


async def test_a_store_may_be_named_from_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    store = await open_store("~/kept.db")
    await store.close()
    assert (tmp_path / "home" / "kept.db").exists()
    assert not (tmp_path / "~").exists()
