"""The locks of `./demo` and `./check` fit what the project asks for, name no index, and can be audited."""

from __future__ import annotations

import http.server
import json
import threading

import pytest
from dev import lock


def test_locks_hold_everything_that_is_asked_for_by_digest_and_name_no_index():
    assert [line for name, extras in lock.LOCKS.items() for line in lock.problems(name, extras)] == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("msgspec==", "msgspeck==", "msgspec is not locked"),
        ("hatchling==", "hatch-ling==", "hatchling is not locked"),
        ("aiohttp==", "--index-url https://index.example/simple\naiohttp==", "names an index"),
        ("annotated-types==0", "bare==1.0\nannotated-types==0", "bare has no digest"),
    ],
)
def test_a_lock_that_does_not_fit_is_told(tmp_path, monkeypatch, old, new, says):
    (tmp_path / "locks").mkdir()
    for name in ("pyproject.toml", "locks/build.in", "locks/demo.txt"):
        (tmp_path / name).write_text((lock.ROOT / name).read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text((lock.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (tmp_path / "locks/build.in").write_text((lock.ROOT / "locks/build.in").read_text())
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    assert any(says in line for line in lock.problems("demo", lock.LOCKS["demo"]))


class Index(http.server.BaseHTTPRequestHandler):
    """An index that knows of one vulnerability, and of one package nothing."""

    def do_GET(self) -> None:
        name = self.path.split("/")[2]
        known = [{"id": "PYSEC-1", "fixed_in": ["99.0"]}] if name == "aiohttp" else []
        body = json.dumps({"vulnerabilities": known}).encode()
        self.send_response(404 if name == self.server.unknown else 200)  # type: ignore[attr-defined]
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize(("unknown", "code"), [("", 1), ("msgspec", 2)])
def test_an_audit_names_what_is_vulnerable_and_what_nobody_knows(monkeypatch, capsys, unknown, code):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        server.unknown = unknown  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(lock.INDEX_VARIABLE, f"http://127.0.0.1:{server.server_port}")
        assert lock.audit() == code
        server.shutdown()
    said = capsys.readouterr()
    assert "aiohttp " in said.out
    assert "PYSEC-1, mended in 99.0" in said.out
    assert ("msgspec" in said.err) == bool(unknown)


def test_an_audit_without_an_index_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.delenv(lock.INDEX_VARIABLE, raising=False)
    assert lock.audit() == 2
    assert lock.INDEX_VARIABLE in capsys.readouterr().err
