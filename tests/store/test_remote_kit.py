"""The store of a server passes the checks of the kit over HTTP: what it promises is what the store behind it does. Two
of them cannot hold, and what holds instead is said here."""

from __future__ import annotations

import itertools
import pathlib
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator

import pytest

from windlass.events.errors import UsageError
from windlass.server.access.token_file import TokenFile
from windlass.store.remote.store import RemoteStore
from windlass.store.rules.ids import check_id
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.store_kit import Check, StoreCase, Writer, applicable

ROOT = pathlib.Path(__file__).parent.parent.parent
CASES = itertools.count(1)

NOT_OVER_HTTP = {
    "log.hard_payloads_come_back_byte_for_byte": "a line that cannot be read is refused at the door",
    "leases.a_clock_that_is_behind_takes_nothing_away": "all clients of a server share one handle, and its doubts",
}


class Served:
    """A server in a process of its own, and the tokens that it knows."""

    def __init__(self, url: str, tokens: TokenFile) -> None:
        self.url = url
        self.tokens = tokens


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    tokens = TokenFile(folder / "tokens.json")
    tokens.ensure_first(tenant="default", now_ms=0)
    words = [sys.executable, "-m", "tests.store.remote_target", str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield Served(process.stdout.readline().strip(), tokens)
        process.stdin.close()


class Tokens(UserDict[str, str]):
    """A token for everything for each tenant that is named, of a tenant of the server that no other check has."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self._served = served
        self._case = next(CASES)

    def get(self, tenant: str, default: str | None = None) -> str | None:  # type: ignore[override]
        if tenant not in self.data:
            check_id("tenant", tenant)
            name = f"case{self._case}.{len(self.data)}"
            self.data[tenant] = self._served.tokens.add(name, ["admin"], tenant=name)
        return self.data[tenant]


CHECKS = [check for check in applicable(SqliteStore.CAPABILITIES) if check.name not in NOT_OVER_HTTP]


@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
async def test_remote_store_keeps_the_promise(check: Check, served: Served):
    tokens = Tokens(served)
    await check.run(StoreCase(lambda: RemoteStore.open_whole(served.url, tokens), SqliteStore.CAPABILITIES))


def test_the_checks_that_cannot_hold_are_two_of_the_kit():
    names = {check.name for check in applicable(SqliteStore.CAPABILITIES)}
    assert set(NOT_OVER_HTTP) <= names
    assert len(CHECKS) == len(names) - 2


async def test_a_line_that_cannot_be_read_or_is_not_what_its_hash_says_is_refused_at_the_door(served: Served):
    store = await RemoteStore.open_whole(served.url, Tokens(served))
    try:
        writer = await Writer(store).claim()
        await writer.append(b'"whole"')
        for body in (b'"\\ud800"', b"{", b'{"a":1,"a":2}'):
            with pytest.raises(UsageError):
                await store.log.append(writer.key, writer.seal(body))
        forged = writer.seal(b'"paid 3"')
        changed = type(forged)(
            **{
                name: getattr(forged, name).replace(b"paid 3", b"paid 9") if name == "data" else getattr(forged, name)
                for name in forged.__struct_fields__
            }
        )
        with pytest.raises(UsageError, match="does not match its hash"):
            await store.log.append(writer.key, changed)
        assert [line async for line in store.log.read(writer.key)] == writer.lines
    finally:
        await store.close()
