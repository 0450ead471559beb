"""S18: what is stored is plain data. Nothing is revived from it, nothing falls back to another codec, nothing is run."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from windlass.events.errors import CodecError, WindlassError
from windlass.events.stored import codec
from windlass.store.transfer import export_session
from windlass.store.transfer.importer import read_export, spool
from windlass.testing.scripted import ScriptedModel, call

SOURCE = pathlib.Path(windlass.__file__).parent
REVIVING = frozenset(
    {
        "pickle",
        "_pickle",
        "cPickle",
        "marshal",
        "shelve",
        "dill",
        "cloudpickle",
        "jsonpickle",
        "joblib",
        "copyreg",
        "numpy",
    }
)
RUNNING = frozenset({"eval", "exec", "compile", "__import__"})
MAY_RUN: dict[str, set[str]] = {}
"""Where source text is run on purpose; there is no such place."""


def modules() -> list[pathlib.Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_no_module_imports_what_revives_objects() -> None:
    found = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found += [f"{path.relative_to(SOURCE)}: {name}" for name in names if name.partition(".")[0] in REVIVING]
    assert found == []


def test_no_module_runs_text_or_loads_yaml_with_tags() -> None:
    found = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            unsafe = name in (
                "yaml.load",
                "yaml.load_all",
                "yaml.unsafe_load",
                "yaml.full_load",
                "os.system",
                "os.popen",
            )
            shell = any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords)
            if name in RUNNING or unsafe or (shell and "subprocess" in name):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {name}")
    assert found == []


PROGRAM = """
import asyncio, sys
seen = []
sys.addaudithook(lambda name, args: seen.append((name, args)) if name.startswith("pickle.") else None)
import windlass
from windlass.testing.scripted import ScriptedModel, call
from windlass.store import open_store
from windlass.store.transfer import export_session

@windlass.tool(contract="pure", plane="process")
def there(text: str) -> dict:
    "Elsewhere."
    return {"text": text}

@windlass.tool(contract="pure")
def here(text: str) -> str:
    "Here."
    return text * 20_000

async def main(place):
    model = ScriptedModel([[call("here", text="abc"), call("there", text="x"), call("list")], "done"])
    agent = windlass.Agent("a", model=model, tools=[here, there, "list", "read"])
    async with windlass.open(place, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.fork()
        lines = [line async for line in export_session(runtime.store, session.key)]
    store = await open_store(place)
    await store.close()

asyncio.run(main(sys.argv[1]))
assert not seen, seen
"""


def test_a_whole_run_revives_nothing(tmp_path: pathlib.Path) -> None:
    """Whatever else is imported by others: no object is found by name in a stream of bytes, here or in the process of a
    tool."""
    (tmp_path / "whole.py").write_text(PROGRAM)
    environ = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "whole.py", str(tmp_path / "s.db")], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# --- payloads that other systems have revived ----------------------------------------------------------------------


def payloads(canary: pathlib.Path) -> list[Any]:
    command = f"touch {canary}"
    return [
        {"lc": 2, "type": "constructor", "id": ["os", "system"], "method": [None], "args": [command], "kwargs": {}},
        {"lc": 1, "type": "constructor", "id": ["subprocess", "run"], "kwargs": {"args": command, "shell": True}},
        {"lc": 1, "type": "secret", "id": ["HOME"]},
        {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, {"py/tuple": [command]}]},
        {"__class__": "subprocess.Popen", "__init__": {"args": command}},
        {"$type": "System.Diagnostics.Process", "$values": [command]},
        {"__reduce__": ["os.system", [command]]},
        "!!python/object/apply:os.system ['" + command + "']",
        "gASVIQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAZ0b3VjaCB4lIWUUpQu",
        {"text": "a\ud800b", "lc": 2, "type": "constructor", "id": ["os", "system"], "args": [command]},
    ]


@pytest.mark.parametrize("number", range(10))
async def test_a_payload_stays_what_it_is(number: int, tmp_path: pathlib.Path) -> None:
    """As arguments, results, metadata and words, with a lone surrogate that made another codec fall back to one that
    constructs objects; written, folded, exported and read again."""
    canary = tmp_path / "canary"
    payload = payloads(canary)[number]

    @windlass.tool(contract="pure")
    def echo(value: Any) -> Any:
        "Gives it back."
        return payload

    odd = "\\ud800" in json.dumps(payload)
    model = ScriptedModel([[call("echo", value="it" if odd else payload)], "done"])
    agent = windlass.Agent("a", model=model, tools=[echo])
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", metadata={"k": json.dumps(payload)})
        await session.prompt(json.dumps(payload))
        await session.result()
        lines = [line async for line in export_session(runtime.store, session.key)]
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent]) as runtime:
        state = await (await runtime.get("s")).state()
        assert state.session_id == "s"
    assert lines
    assert not canary.exists()
    kept = [item for item in model.requests[-1].items if type(item).__name__ == "ResultItem"]
    assert "constructor" not in json.dumps(payload) or "constructor" in repr(kept)


# --- bytes ------------------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(st.binary(max_size=400) | st.text(alphabet='{}[]",:0123456789truefalsn\\u', max_size=200).map(str.encode))
def test_no_bytes_are_a_command_by_accident(data: bytes) -> None:
    try:
        command = codec.decode_command(data)
    except CodecError:
        return
    assert codec.decode_command(codec.encode_command(command)) == command


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 10_000), st.integers(0, 40))
def test_a_damaged_line_is_an_error_that_we_know(noise: bytes, at: int, length: int) -> None:
    line = LINE[: at % len(LINE)] + noise + LINE[at % len(LINE) + length :]
    if line == LINE:
        return
    with contextlib.suppress(WindlassError):  # whether it is what was written is for the chain to say
        codec.decode(line)


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"cancel.received","command_id":"a","command_id":"b"}',
        b'{"type":"cancel.received","type":"tool.allowed","command_id":"a"}',
        b'{"type":"tool_result.received","command_id":"a","call_id":"c","ok":true,"body":{"content":[{"type":"data","value":{"a":1,"a":2}}]}}',
        b'{"type":"cancel.received","command_id":"a","reason":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"cancel.received","command_id":"a","reason":"\\ud800"}',
        b'{"type":"cancel.received","command_id":' + b"9" * 100_000 + b"}",
        b'{"type":"os.system","command_id":"a"}',
        b'\xef\xbb\xbf{"type":"cancel.received","command_id":"a"}',
        b'{"type":"cancel.received","command_id":"a"}{"type":"cancel.received","command_id":"b"}',
        b"\x80\x04\x95\x1b\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    ],
    ids=["two keys", "two types", "two within", "deep", "surrogate", "number", "type", "mark", "two values", "pickle"],
)
def test_a_command_that_is_not_one_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        codec.decode_command(data)


@settings(max_examples=100)
@given(st.binary(max_size=500))
def test_no_bytes_are_an_export_by_accident(data: bytes) -> None:
    import asyncio

    async def source() -> Any:
        yield data

    async def read() -> None:
        with spool() as room:
            await read_export(source(), room)

    with pytest.raises(WindlassError):
        asyncio.run(read())


def _line() -> bytes:
    import asyncio

    async def made() -> bytes:
        agent = windlass.Agent("a", model=ScriptedModel(["hello"]))
        async with windlass.open(agents=[agent]) as runtime:
            session = await runtime.session(agent, "s")
            await session.prompt("hi")
            await session.result()
            sealed = [sealed async for sealed in runtime.store.log.read(session.key)]
            return bytes(sealed[0].data)

    return asyncio.run(made())


LINE = b""


@pytest.fixture(autouse=True, scope="module")
def line() -> None:
    global LINE
    LINE = _line()
