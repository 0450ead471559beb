"""The bubblewrap sandbox, with real programs that do their worst."""

from __future__ import annotations

import pathlib
import tempfile

import pytest

from windlass.tools.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.tools.sandboxes.folder_sandbox import FolderSandbox

from .escapes import *  # noqa: F403
from .escapes import is_there
from .programs import script, shell

if (problem := BubblewrapSandboxes().problem()) is not None:
    pytest.skip(f"bubblewrap cannot be used here: {problem}", allow_module_level=True)


@pytest.fixture
def box(root: pathlib.Path) -> FolderSandbox:
    return BubblewrapSandboxes()._made(str(root))


async def test_it_says_what_it_holds_processes_to(box):
    told = await box.capabilities()
    assert (told.name, told.confines_files, told.confines_network, told.pty, told.jobs) == (
        "bubblewrap", True, True, True, True,
    )  # fmt: skip


async def test_no_process_of_the_machine_is_seen(box):
    seen = await box.run(script("import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))"))
    assert seen.stdout.text == "[1, 2]\n"


async def test_there_is_no_network_but_a_loopback_of_its_own(box):
    seen = await box.run(shell("cut -d: -f1 -s /proc/net/dev"))
    assert seen.stdout.text.split() == ["lo"]
    own = "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_connection(a.getsockname()); print('ok')"
    assert (await box.run(script(own))).stdout.text == "ok\n"


async def test_a_folder_beneath_the_other_place_for_temporary_files_is_worked_in():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as above:
        (root := pathlib.Path(above) / "a" / "work").mkdir(parents=True)
        (pathlib.Path(above) / "beside").write_text("canary")
        box = await BubblewrapSandboxes().open("s", str(root))
        done = await box.run(shell(f"echo x > made; cat {above}/beside; echo t > /var/tmp/t; cat made /tmp/t; pwd"))
        await box.close()
        assert (done.stdout.text, (root / "made").read_text()) == (f"x\nt\n{root}\n", "x\n")
        assert not is_there("/var/tmp/t")


async def test_what_it_wrote_beside_the_folder_goes_with_it(box):
    scratch = box._confinement._scratch.path
    await box.run(shell("echo x > /tmp/x"))
    assert is_there(f"{scratch}/tmp/x")
    await box.close()
    assert not is_there(scratch)


async def test_secrets_are_hidden_even_in_the_folder_itself(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    (root / ".ssh").mkdir()
    (root / ".ssh" / "id").write_text("canary")
    (root / ".netrc").write_text("canary")
    box = await BubblewrapSandboxes(hidden=(str(root / "store.db"),)).open("s", str(root))
    (root / "store.db").write_text("canary")
    told = await box.run(shell("cat .ssh/id .netrc store.db; ls -A .ssh; echo x > mine; cat mine"))
    assert told.stdout.text == "x\n"


async def test_a_sandbox_that_cannot_be_made_says_so(tmp_path):
    box = BubblewrapSandboxes(readable=("/nowhere",))._made(str(tmp_path))
    assert (await box.run(shell("echo x"))).ok
    from windlass.tools.context import ToolError
    from windlass.tools.sandboxes.sandbox import Access

    with pytest.raises(ToolError, match=r"the sandbox could not be made: bwrap: .*/nowhere"):
        await box.run(shell("echo x", access=Access(writable=("/nowhere",))))
