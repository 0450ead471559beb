"""Rules that hold for every test: async functions run, nothing hangs, nothing leaves this machine, skips are argued.

It owns no fixtures of a single part; those live beside the tests that need them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import ipaddress
import os
import pathlib
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any

import hypothesis
import pytest

GUARD_ASYNC_S = 300.0
"""How long one async test (or one hypothesis example of it) may take."""
GUARD_SYNC_S = 600.0
"""How long any other test may take: a backstop, so that a hang is a named failure."""
GUARD_LONG_S = 7200.0
"""The same for tests marked `long`."""
GUARD_GRACE_S = 10.0
"""What an async test gets to unwind after its guard cancelled it, before it is torn out of whatever blocks."""

SKIPS_FILE = pathlib.Path(__file__).with_name("skips.txt")

hypothesis.settings.register_profile(
    "ci",
    # CI judges a change by the same examples each time; ./check draws new ones everywhere else.
    derandomize=os.environ.get("CI") == "true",
    print_blob=True,
    deadline=None,
    # How quickly data is drawn says something about the machine, not about the code.
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    """Register our marker and close the ways out of this machine."""
    config.addinivalue_line("markers", "guard(seconds): how long this test may take (async: 300 s unless said)")
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]  # a proxy on loopback would be a hole in the guard below
    os.environ.pop("PYTHONUNBUFFERED", None)  # what a program says at once it must say so without this, as for users
    forbid_network()


# --- async tests and the guard against hangs ---------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Stores that nobody names are kept for the tests alone, never in the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests, plain or under hypothesis, each in a fresh event loop."""
    test = pyfuncitem.obj
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", None)
    if inner is not None:
        if inspect.iscoroutinefunction(inner):
            test.hypothesis.inner_test = _in_fresh_loop(inner, _async_seconds(pyfuncitem))
        return None
    if inspect.isasyncgenfunction(test):
        pytest.fail("an async test must not yield: use an async context manager inside it")
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    _in_fresh_loop(test, _async_seconds(pyfuncitem))(**arguments)
    return True


def _in_fresh_loop(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def guarded() -> None:
            deadline = asyncio.timeout(seconds)
            try:
                async with deadline:
                    await test(*args, **kwargs)
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                # Chained, so that the report shows the await at which the test hung.
                raise GuardExpired(_guard_message(seconds)) from error

        asyncio.run(guarded())

    return run


class GuardExpired(Exception):
    """A test took longer than its guard."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Tear the test out of whatever blocks it when its time is over, and fail it if it tried to leave this machine."""
    attempts_to_leave.clear()
    with _alarm(_hard_seconds(item)):
        yield
    if attempts_to_leave:
        tried = ", ".join(attempts_to_leave)
        attempts_to_leave.clear()
        pytest.fail(f"the test tried to reach {tried}: only loopback and unix sockets are allowed", pytrace=False)


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def expire(*_: object) -> None:
        # `Failed` is no `Exception`, so that a broad except in the code under test cannot swallow it.
        raise pytest.fail.Exception(_guard_message(seconds))

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _guard_message(seconds: float) -> str:
    return f"still running after {seconds:g} s: it hangs, or needs @pytest.mark.guard(seconds)"


def _async_seconds(item: pytest.Item) -> float:
    default = GUARD_LONG_S if item.get_closest_marker("long") else GUARD_ASYNC_S
    return _marked_seconds(item) or default


def _hard_seconds(item: pytest.Item) -> float:
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        return _async_seconds(item) + GUARD_GRACE_S
    default = GUARD_LONG_S if item.get_closest_marker("long") else GUARD_SYNC_S
    return _marked_seconds(item) or default


def _marked_seconds(item: pytest.Item) -> float | None:
    marker = item.get_closest_marker("guard")
    if marker is None:
        return None
    (seconds,) = marker.args
    return float(seconds)


# --- nothing leaves this machine ---------------------------------------------------------------------------------

attempts_to_leave: list[str] = []
"""Where the running test tried to go. Kept beside the exception, because code under test may rightly catch that."""


class NetworkForbidden(PermissionError):
    """A test tried to reach something that is not on this machine. An `OSError`, so that clients clean up after it."""


def forbid_network() -> None:
    """Let sockets of this process reach loopback and unix sockets only, and resolve no other names.

    Names under `.invalid` fail to resolve, as they must everywhere; tests use them for hosts that do not exist.
    """
    for method in ("connect", "connect_ex"):
        _guard_address(method, position=0)
    _guard_address("sendto", position=-1)
    for function in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        _guard_name(function)


def _guard_address(method: str, position: int) -> None:
    real = getattr(socket.socket, method)

    @functools.wraps(real)
    def guarded(self: socket.socket, *args: Any) -> Any:
        address = args[position]
        if self.family == socket.AF_UNIX:
            return real(self, *args)
        if self.family not in (socket.AF_INET, socket.AF_INET6) or not _is_here(address[0]):
            _refuse(address)
        return real(self, *args)

    setattr(socket.socket, method, guarded)


def _guard_name(function: str) -> None:
    real = getattr(socket, function)

    @functools.wraps(real)
    def guarded(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if isinstance(name, str) and name.rstrip(".").endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "name or service not known")
        # A number needs no resolver; whether it may be reached is for connect to say.
        if not (name is None or _is_number(name) or _is_here(name)):
            _refuse(name)
        return real(host, *args, **kwargs)

    setattr(socket, function, guarded)


def _refuse(address: object) -> None:
    attempts_to_leave.append(repr(address))
    raise NetworkForbidden(f"{address!r} is not on this machine: tests may use loopback and unix sockets only")


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_here(host: str) -> bool:
    if not _is_number(host):
        return host.rstrip(".").lower() in ("", "localhost") or host.lower().endswith(".localhost")
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or address.is_unspecified


# --- a skip is a failure in CI, unless it is argued --------------------------------------------------------------


def skips_are_failures() -> bool:
    """True in CI and wherever WINDLASS_NO_SKIPS is set."""
    return any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in ("CI", "WINDLASS_NO_SKIPS"))


def argued_skips(text: str) -> dict[str, str]:
    """The reasons by node id (or file) in the text of `skips.txt`; a line without a reason is an error."""
    reasons = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        node, _, reason = (part.strip() for part in line.partition(" | "))
        if not reason:
            raise pytest.UsageError(f"{SKIPS_FILE.name}:{number}: write 'node id | reason', not {line!r}")
        reasons[node] = reason
    return reasons


@functools.cache
def _argued_here() -> dict[str, str]:
    return argued_skips(SKIPS_FILE.read_text(encoding="utf-8"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skipped or xfailed test as failed where skips are failures."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skipped itself."""
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not (report.skipped and skips_are_failures()) or report.nodeid in _argued_here():
        return
    reason = getattr(report, "wasxfail", "") or (report.longrepr[2] if isinstance(report.longrepr, tuple) else "")
    if hasattr(report, "wasxfail"):
        del report.wasxfail
    report.outcome = "failed"
    report.longrepr = (
        f"{report.nodeid} was skipped ({reason}), and here a skip is a failure: "
        f"make it run, or add the line '{report.nodeid} | <reason>' to tests/{SKIPS_FILE.name}"
    )


@pytest.fixture(autouse=True)
def secrets_of_its_own() -> Iterator[None]:
    """Keys that one test uses are no secrets of the next: there are more of them than any process has."""
    yield
    known = sys.modules.get("windlass.events.stored.known_secrets")
    if known is not None:
        known.SECRETS.__init__()
