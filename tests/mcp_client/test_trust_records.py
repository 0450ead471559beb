"""Records of trust in MCP servers that several change at the same moment."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import msgspec
import pytest

from tests.mcp_client.conftest import PATIENCE_S
from windlass.mcp.server import McpServer
from windlass.mcp.trust import TrustRecords, key_of, sight_of


def test_a_look_takes_back_nothing_that_a_person_agrees_to_meanwhile(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = McpServer(name="shop", command="shop")
    key, sight = key_of(server, "helper"), sight_of(server)
    records = TrustRecords(str(tmp_path))
    records.saw(server, key, sight)
    seen = records.of(key)
    assert seen is not None
    person = threading.Thread(target=TrustRecords(str(tmp_path)).agree, args=(seen, "a person"))
    read = TrustRecords.of

    def slow(these: TrustRecords, key: str) -> Any:
        before = read(these, key)
        person.start()
        person.join(0.2)  # as long as it may take, if nothing holds it up
        return before

    monkeypatch.setattr(TrustRecords, "of", slow)
    other = msgspec.structs.replace(sight, about="other words")
    records.saw(server, key, other)
    person.join(PATIENCE_S)
    monkeypatch.undo()
    record = records.of(key)
    assert record is not None
    assert (record.trusted, record.by) == (sight, "a person")
