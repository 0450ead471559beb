"""An adapter is one folder: with it gone, every other module loads, and every other verb and mount is there."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import windlass

SOURCE = pathlib.Path(windlass.__file__).parent
NAMES = sorted(folder.name for folder in (SOURCE / "adapters").iterdir() if (folder / "__init__.py").exists())
LOAD_ALL = """
import importlib, json, pkgutil, sys
import windlass
from windlass.adapters.log_views import tree_views, views
from windlass.adapters.mounts import mount_names, mounts_named

assert windlass.__file__.startswith(sys.argv[1]), windlass.__file__
names = [found.name for found in pkgutil.walk_packages(windlass.__path__, "windlass.")]
for name in names:
    importlib.import_module(name)
mounts = {mount.name for mount in mounts_named(mount_names())}
views = {name.partition("-")[0] for name in {**views(), **tree_views()}}
print(json.dumps({"modules": names, "mounts": sorted(mounts), "views": sorted(views)}))
"""
VERBS = {"acp": (), "copilot": ("--stdio",), "duet": ()}
"""The verbs by the name of their adapter, with what they need to begin."""
MOUNTS = {"a2a", "agui", "openai"}
VIEWS = {"acp", "copilot", "duet", "meerkat"}


def without(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A place to import from, in which the package has every folder but that of one adapter."""
    package = folder / "windlass"
    (package / "adapters").mkdir(parents=True)
    for kept in (*SOURCE.iterdir(), *(SOURCE / "adapters").iterdir()):
        if kept != SOURCE / "adapters" and kept != SOURCE / "adapters" / name:
            (package / kept.relative_to(SOURCE)).symlink_to(kept)
    return folder


def ran(place: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *words], env=environ, cwd=place, capture_output=True, text=True, check=False)


def test_these_are_all_the_adapters():
    assert set(NAMES) == {*VERBS} | MOUNTS | VIEWS


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_can_be_deleted_without_touching_another_folder(tmp_path: pathlib.Path, name: str):
    place = without(tmp_path, name)
    loaded = ran(place, "-c", LOAD_ALL, str(place))
    assert loaded.returncode == 0, loaded.stderr[-3000:]
    found = json.loads(loaded.stdout)
    assert not [module for module in found["modules"] if module.startswith(f"windlass.adapters.{name}")]
    assert {module.split(".")[2] for module in found["modules"] if module.startswith("windlass.adapters.")} >= set(
        NAMES
    ) - {name}
    assert (set(found["mounts"]), set(found["views"])) == (MOUNTS - {name}, VIEWS - {name})
    (tmp_path / "clerk.py").write_text("")
    if name in VERBS:
        said = ran(place, "-m", "windlass.cli.main", name, "clerk.py", *VERBS[name])
        assert said.returncode == 2, said.stderr[-3000:]
        assert "Traceback" not in said.stderr
        assert f"{name}: this installation is without windlass.adapters.{name}" in said.stderr
    if name in MOUNTS:
        said = ran(place, "-m", "windlass.cli.main", "serve", "--with", name)
        assert said.returncode == 2, said.stderr[-3000:]
        assert said.stderr == f"windlass: --with {name}: there are {', '.join(sorted(MOUNTS - {name}))}\n"
