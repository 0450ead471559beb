"""The sandbox of Landlock and seccomp, with real programs that do their worst."""

from __future__ import annotations

import pathlib

import pytest

from windlass.tools.context import ToolError
from windlass.tools.sandboxes import confine, landlock
from windlass.tools.sandboxes.folder_sandbox import FolderSandbox
from windlass.tools.sandboxes.landlock import SIGNALS_SINCE, WHOLE_SINCE, LandlockSandboxes
from windlass.tools.sandboxes.sandbox import Access

from .escapes import *  # noqa: F403
from .programs import shell

if (problem := LandlockSandboxes().problem()) is not None:
    pytest.skip(f"Landlock cannot be used here: {problem}", allow_module_level=True)
if confine.landlock_version() < SIGNALS_SINCE:
    pytest.skip(f"Landlock {confine.landlock_version()} holds less than is tested here", allow_module_level=True)


@pytest.fixture
def box(root: pathlib.Path) -> FolderSandbox:
    return LandlockSandboxes()._made(str(root))


async def test_it_says_what_it_holds_processes_to(box, monkeypatch):
    told = await box.capabilities()
    assert (told.name, told.confines_files, told.confines_network) == ("landlock", True, True)
    monkeypatch.setattr(confine, "landlock_version", lambda: WHOLE_SINCE - 1)
    assert not (await box.capabilities()).confines_files


async def test_hosts_are_refused_if_it_could_only_give_all(box, monkeypatch):
    monkeypatch.setattr(landlock, "network_problem", lambda: "no namespaces")
    assert not (await box.capabilities()).gives_hosts
    with pytest.raises(ToolError, match="some hosts and not all: no namespaces"):
        await box.run(shell("true", access=Access(hosts=("example.com",))))


async def test_a_folder_with_secrets_in_it_is_refused_since_they_could_not_be_hidden(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    (root / ".ssh").mkdir()
    with pytest.raises(ToolError, match=r"cannot hold off .*\.ssh"):
        await LandlockSandboxes().open("s", str(root))


@pytest.mark.parametrize(("version", "bits"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (7, 16)])
def test_accesses_are_those_of_the_version(version, bits):
    assert confine.known_accesses(version) == (1 << bits) - 1


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("alone", [True, False])
def test_every_jump_of_a_filter_stays_within_it(machine, alone):
    import struct

    made = confine.call_filter(machine, alone=alone)
    steps = [struct.unpack("=HBBI", made[at : at + 8]) for at in range(0, len(made), 8)]
    for at, (code, if_so, if_not, _) in enumerate(steps):
        assert code == confine.RETURN or at + 1 + max(if_so, if_not) < len(steps)
    assert steps[-1][0] == confine.RETURN


def test_a_machine_that_is_not_known_gets_no_filter():
    with pytest.raises(OSError, match="no filter of system calls is known for riscv"):
        confine.call_filter("riscv", alone=True)
