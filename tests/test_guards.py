"""The rules of conftest.py, tried on a small suite that breaks them: a guard that never fires guards nothing."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

from tests import conftest

SUITE = """
import asyncio, socket, time, urllib.request
import pytest
from hypothesis import given, strategies as st

async def test_awaits(tmp_path):
    await asyncio.sleep(0)
    assert tmp_path.is_dir()

async def test_fails_after_await():
    await asyncio.sleep(0)
    assert False

class TestGroup:
    async def test_method_fails(self):
        assert False

@given(st.integers())
async def test_fails_on_a_drawn_example(number):
    await asyncio.sleep(0)
    assert number < 1000

async def test_raises_its_own_timeout():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

@pytest.mark.guard(0.1)
async def test_hangs_at_an_await():
    await asyncio.Event().wait()

@pytest.mark.guard(0.1)
def test_hangs_without_a_loop():
    try:
        time.sleep(60)
    except Exception:
        pass

def test_leaves_and_hides_it():
    try:
        urllib.request.urlopen("http://windlass.example/")
    except OSError:
        pass

async def test_reaches_a_server_here():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "localhost", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

def test_unix_sockets_are_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("here")
        server.listen()
        client.connect("here")

def test_skips_itself():
    pytest.skip("not today")

def test_skips_with_an_argument():
    pytest.skip("not here")

@pytest.mark.xfail(reason="some day")
def test_is_expected_to_fail():
    assert False
"""

SKIPS = "# argued\ntest_suite.py::test_skips_with_an_argument | needs what this machine lacks\n"

FAILS_ALWAYS = {
    *("test_fails_after_await", "TestGroup::test_method_fails", "test_fails_on_a_drawn_example"),
    *("test_hangs_at_an_await", "test_hangs_without_a_loop", "test_leaves_and_hides_it"),
}
PASSES = {
    *("test_awaits", "test_raises_its_own_timeout", "test_reaches_a_server_here", "test_unix_sockets_are_here"),
}
UNARGUED = {"test_skips_itself", "test_is_expected_to_fail"}


def run_suite(folder: pathlib.Path, suite: str, **environment: str) -> tuple[dict[str, set[str]], str]:
    """Run a suite under our conftest in a new process; returns the tests by outcome, and the whole output."""
    shutil.copy(conftest.__file__, folder)
    (folder / "skips.txt").write_text(SKIPS, encoding="utf-8")
    (folder / "test_suite.py").write_text(suite, encoding="utf-8")
    flags = f"-rA -p no:cacheprovider --rootdir {folder} -c {os.devnull}"
    command = [sys.executable, "-m", "pytest", *flags.split()]
    ours = ("CI", "WINDLASS_NO_SKIPS", "PYTEST_ADDOPTS")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode in (1, 2), done.stdout + done.stderr
    outcomes: dict[str, set[str]] = {}
    for outcome, test in re.findall(
        r"^(PASSED|FAILED|XFAIL|ERROR) test_suite\.py(?:::)?(\S*)", done.stdout, re.MULTILINE
    ):
        outcomes.setdefault(outcome, set()).add(test)
    return outcomes, done.stdout


def test_hangs_network_and_failures_are_caught_and_the_rest_passes(tmp_path):
    outcomes, output = run_suite(tmp_path, SUITE)
    assert outcomes == {"PASSED": PASSES, "FAILED": FAILS_ALWAYS, "XFAIL": {"test_is_expected_to_fail"}}
    assert "await asyncio.Event().wait()" in output  # where it hung
    assert "tried to reach 'windlass.example'" in output
    assert "@reproduce_failure(" in output


@pytest.mark.parametrize("switch", ["CI", "WINDLASS_NO_SKIPS"])
def test_a_skip_without_an_argument_fails_in_ci(tmp_path, switch):
    outcomes, output = run_suite(tmp_path, SUITE, **{switch: "true"})
    assert outcomes == {"PASSED": PASSES, "FAILED": FAILS_ALWAYS | UNARGUED}
    assert "'test_suite.py::test_skips_itself | <reason>' to tests/skips.txt" in output


def test_a_module_that_skips_itself_fails_in_ci(tmp_path):
    suite = "import pytest\npytest.skip('whole', allow_module_level=True)\ndef test_a(): pass"
    outcomes, _ = run_suite(tmp_path, suite, CI="1")
    assert outcomes == {"ERROR": {""}}


def test_an_argued_skip_needs_its_reason():
    assert conftest.argued_skips(SKIPS) == {
        "test_suite.py::test_skips_with_an_argument": "needs what this machine lacks"
    }
    with pytest.raises(
        pytest.UsageError, match=r"skips.txt:1: write 'node id \| reason', not 'tests/test_a.py::test_b'"
    ):
        conftest.argued_skips("tests/test_a.py::test_b")


def test_each_argued_skip_names_a_file_that_exists():
    folder = conftest.SKIPS_FILE.parent
    listed = conftest.argued_skips(conftest.SKIPS_FILE.read_text(encoding="utf-8"))
    gone = [node for node in listed if not (folder.parent / node.partition("::")[0]).is_file()]
    assert gone == [], "remove these lines from tests/skips.txt"


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("api.localhost", True),
        ("", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost.example", False),
        ("notlocalhost", False),
    ],
)
def test_only_this_machine_is_here(host, here):
    assert conftest._is_here(host) is here


@pytest.mark.parametrize(
    "leave",
    [
        lambda: socket.create_connection(("192.0.2.1", 80)),
        lambda: socket.getaddrinfo("windlass.example", 80),
        lambda: socket.gethostbyname("windlass.example"),
        lambda: _with_datagram_socket("connect_ex", ("192.0.2.1", 9)),
        lambda: _with_datagram_socket("sendto", b"x", ("192.0.2.1", 9)),
    ],
)
def test_every_way_out_is_refused_and_remembered(leave):
    with pytest.raises(conftest.NetworkForbidden):
        leave()
    assert len(conftest.attempts_to_leave) == 1
    conftest.attempts_to_leave.clear()


def test_a_name_that_cannot_exist_is_unknown_not_forbidden():
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("model.invalid", 443)
    assert conftest.attempts_to_leave == []


def _with_datagram_socket(method: str, *args: object) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way_out:
        return getattr(way_out, method)(*args)
