"""What a sandbox opens for one command: what somebody agreed to, for exactly that call, and nothing without it."""

from __future__ import annotations

import asyncio
import http.server
import pathlib
import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolAllowed, ToolFinished
from windlass.events.tools.permissions import PermissionRequested
from windlass.runtime.api.approvals import Approve, PermissionAsk
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.sandboxes.choice import candidates, sandbox_named
from windlass.tools.sandboxes.sandbox import Access, Process
from windlass.tools.sandboxes.visible_paths import beneath, home

from .tracing import traced

USABLE = [each.name for each in candidates() if each.problem is None and each.name != "container"]
FETCH = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/', timeout=20).read().decode())\""
SANDBOXED = windlass.Policy(rules=(windlass.allow("shell", confined=True),), default="ask")
pytestmark = pytest.mark.parametrize("kind", USABLE)


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def places(tmp_path: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    return work.resolve(), outside.resolve()


class Told:
    """What a run left behind."""

    def __init__(self, events: list[Any], asks: list[PermissionAsk]) -> None:
        self.asks = asks
        self.requests = [event for event in events if isinstance(event, PermissionRequested)]
        self.allowed = [event for event in events if isinstance(event, ToolAllowed)]
        results = [event for event in events if isinstance(event, ToolFinished)]
        self.ok = [event.ok for event in results]
        self.texts = [getattr(block, "text", "") for e in results if e.body for block in e.body.content]


async def told_of(
    work: pathlib.Path, kind: str, policy: windlass.Policy, *calls: dict[str, Any], answer: Any = True
) -> Told:
    """Runs commands one after the other in a session whose person answers with `answer`."""
    agent = windlass.Agent(
        "a", model=ScriptedModel([*(call("shell", **given) for given in calls), "done"]), tools=["shell"], policy=policy
    )
    asks: list[PermissionAsk] = []

    def answers(asked: Any) -> Any:
        asks.append(asked)
        return answer

    store = str(work.parent / "store.db")
    async with windlass.open(store, agents=[agent], sandbox=kind, approver=answers) as runtime:
        session = await runtime.session(agent, "s", workspace=work)
        events = [event async for event in session.prompt("go")]
    return Told(events, asks)


async def test_a_host_is_reached_by_the_command_that_somebody_allowed_it_to_and_by_no_other(places, port, kind):
    fetch, host = FETCH.format(port=port), f"127.0.0.1:{port}"
    told = await told_of(places[0], kind, SANDBOXED, {"command": fetch, "reach_hosts": [host]}, {"command": fetch})
    assert told.ok == [True, False], told.texts
    assert "reached" in told.texts[0]
    assert "reach_hosts" in told.texts[1]  # how to ask for it
    assert len(told.asks) == 1  # the second needs nobody: it runs in the sandbox, and reaches nobody
    terms = told.asks[0].sandbox
    assert terms is not None
    assert (terms.name, terms.access.hosts) == (kind, (host,))
    assert [event.access for event in told.allowed] == [Access(hosts=(host,)), None]


async def test_a_file_outside_is_written_by_the_command_that_somebody_allowed_it_to_and_by_no_other(places, kind):
    work, outside = places
    (outside / "file").write_text("old")
    told = await told_of(
        work,
        kind,
        SANDBOXED,
        {"command": f"echo new > {outside}/file", "write_paths": [f"{outside}/file"]},
        {"command": f"echo more > {outside}/other; echo x > {outside}/file"},
    )
    assert told.ok == [True, False], told.texts
    assert (outside / "file").read_text() == "new\n"
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert told.requests[0].sandbox is not None
    assert told.requests[0].sandbox.access.writable == (f"{outside}/file",)


async def test_what_a_person_refuses_is_not_opened(places, port, kind):
    given = {"command": FETCH.format(port=port), "reach_hosts": [f"127.0.0.1:{port}"]}
    told = await told_of(places[0], kind, windlass.ALLOW_ALL, given, answer=False)
    assert len(told.asks) == 1  # a policy that allows all does not speak of it
    assert told.ok == []


async def test_a_rule_opens_what_it_speaks_of_and_nothing_else(places, port, kind):
    work, outside = places
    fetch, host = FETCH.format(port=port), f"127.0.0.1:{port}"
    policy = windlass.Policy(
        rules=(
            windlass.allow("shell", confined=True),
            windlass.allow("shell", confined=True, hosts=["127.0.0.1"]),
            windlass.allow("shell", confined=True, writes=["**", f"{outside}/"]),
        ),
        default="deny",
    )
    told = await told_of(
        work,
        kind,
        policy,
        {"command": f"{fetch} > {outside}/got", "reach_hosts": [host], "write_paths": [str(outside)]},
        {"command": "true", "reach_hosts": ["example.org"]},
        answer=False,
    )
    assert told.ok == [True], told.texts
    assert (outside / "got").read_text() == "reached\n"
    assert [ask.sandbox.access.hosts for ask in told.asks if ask.sandbox is not None] == [("example.org",)]


async def test_an_approval_for_the_session_opens_what_was_shown_and_is_listed_and_asked_beyond(places, kind):
    work, outside = places
    told = await told_of(
        work,
        kind,
        SANDBOXED,
        {"command": f"touch {outside}/a", "write_paths": [str(outside)]},
        {"command": f"touch {outside}/b", "write_paths": [str(outside)]},
        {"command": "true", "write_paths": [str(outside)], "reach_hosts": ["example.org"]},
        answer=Approve(scope="session"),
    )
    assert told.ok == [True, True, True], told.texts
    assert sorted(path.name for path in outside.iterdir()) == ["a", "b"]
    assert [event.by for event in told.allowed] == ["person", "grant", "person"]


@pytest.mark.parametrize("path", ["/", "..", ".", "/proc/sys", "~/.ssh"])
async def test_what_nobody_may_open_is_refused_before_anybody_is_asked(places, monkeypatch, kind, path):
    monkeypatch.setenv("HOME", str(places[1]))
    (places[1] / ".ssh").mkdir()
    told = await told_of(places[0], kind, SANDBOXED, {"command": "true", "write_paths": [path]})
    assert told.asks == []
    assert told.ok == []


async def test_a_link_is_opened_as_the_place_that_it_leads_to(places, kind):
    work, outside = places
    (work / "link").symlink_to(outside)
    told = await told_of(work, kind, SANDBOXED, {"command": "touch link/made", "write_paths": ["link"]})
    assert told.asks[0].sandbox is not None
    assert told.asks[0].sandbox.access.writable == (str(outside),)
    assert (outside / "made").exists()


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
async def test_system_calls_show_that_nothing_but_what_was_opened_is_written_or_reached(places, port, kind):
    work, outside = places
    (outside / "mine").mkdir()
    (outside / "theirs").mkdir()
    program = f"""#hostile
import socket, urllib.request
for path in ("{outside}/mine/a", "{outside}/theirs/a", "{outside}/b", "own"):
    try: open(path, "w").write("x")
    except OSError as error: print(error)
for address in (("127.0.0.1", {port}), ("127.0.0.1", 22), ("1.1.1.1", 3128), ("1.1.1.1", 80)):
    try: socket.socket().connect(address)
    except OSError as error: print(error)
print(urllib.request.urlopen("http://127.0.0.1:{port}/").read())
"""
    access = Access(writable=(f"{outside}/mine",), hosts=(f"127.0.0.1:{port}",))
    box: Any = await sandbox_named(kind).open("s", str(work))
    launch = await box.launch(Process(argv=("python3", "-c", program), access=access))
    calls = await asyncio.to_thread(traced, launch, "#hostile", str(work.parent / "log"))
    scratch = box._confinement._scratch.path
    await box.close()
    own = ("/tmp", "/var/tmp", home(), "/dev") if kind == "bubblewrap" else ("/dev/null", "/dev/tty")
    allowed = (str(work), f"{outside}/mine", scratch, *own)
    written = [one for one in calls if one.changes and one.worked]
    paths = [path for one in written for path in one.paths(str(work)) if str(outside) in path or path.endswith("own")]
    assert [path for path in paths if not any(beneath(path, base) for base in allowed)] == []
    assert (outside / "mine" / "a").exists()
    assert list((outside / "theirs").iterdir()) == []
    tried = [one for one in calls if one.name == "connect" and "AF_INET" in one.arguments]
    assert len(tried) >= 5
    connected = [one.arguments for one in tried if one.worked]
    assert len(connected) == 1  # to the proxy's port of the loopback that is its own, where nobody else is
    assert "htons(3128)" in connected[0]
    assert "127.0.0.1" in connected[0]


async def test_an_approval_is_asked_for_again_if_the_session_has_another_sandbox_by_then(places, kind):
    work, outside = places
    model = ScriptedModel([call("shell", command=f"touch {outside}/made", write_paths=[str(outside)]), "done"])
    agent = windlass.Agent("a", model=model, tools=["shell"], policy=SANDBOXED)
    store = str(work.parent / "store.db")
    async with windlass.open(store, agents=[agent], sandbox=kind) as runtime:
        session = await runtime.session(agent, "s", workspace=work)
        await session.prompt("go")
        await session.wait_idle()
        (first,) = await session.requests()
    async with windlass.open(store, agents=[agent], sandbox="local") as runtime:
        session = await runtime.session(agent, "s", workspace=work)
        with pytest.raises(windlass.WindlassError, match=r"withdrawn \(changed\)"):
            await session.approve(first)  # given for the sandbox, and it would run in none
        await session.wait_idle()
        (second,) = await session.requests()
        assert (second.changed, second.replaces) == (("sandbox",), first.request_id)
        assert second.sandbox is not None
        assert (second.sandbox.name, second.sandbox.confines) == ("local", False)
    assert not (outside / "made").exists()
