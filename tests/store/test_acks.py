"""A torn acknowledgement is none: it is recognised, and the oracle neither counts it as given nor looks for it."""

from __future__ import annotations

import mmap
import pathlib
import resource
from typing import Any

import pytest

from tests.store.kill_oracle import check_after_kill
from windlass.testing.kill_rig import ACK_BYTES, Acks, Child, KillRig

LINES = ["append s0 3 abc", "blob s0 sha256:12", "command s0 1-3"]


def written(path: pathlib.Path, *lines: str) -> str:
    acks = Acks(str(path))
    for line in lines:
        acks.say(line)
    return str(path)


def cut(path: pathlib.Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def test_every_acknowledgement_lies_on_one_page(tmp_path: pathlib.Path):
    path = written(tmp_path / "acks", *LINES, "é" * 127, "x" * (ACK_BYTES - 1), "")
    assert mmap.PAGESIZE % ACK_BYTES == 0
    assert pathlib.Path(path).stat().st_size == 6 * ACK_BYTES
    assert Acks.read(path) == [*LINES, "é" * 127, "x" * (ACK_BYTES - 1), ""]
    assert Acks.torn(path) == []


@pytest.mark.parametrize("text", ["x" * ACK_BYTES, "é" * 128, "two\nlines"])
def test_what_does_not_fit_is_refused_and_leaves_nothing(text: str, tmp_path: pathlib.Path):
    acks = Acks(str(tmp_path / "acks"))
    with pytest.raises(ValueError, match="one line of fewer than 256 bytes"):
        acks.say(text)
    assert (tmp_path / "acks").read_bytes() == b""


def test_there_are_none_before_the_first(tmp_path: pathlib.Path):
    assert (Acks.read(str(tmp_path / "acks")), Acks.torn(str(tmp_path / "acks"))) == ([], [])


def test_one_cut_anywhere_is_torn_and_the_next_life_writes_behind_it(tmp_path: pathlib.Path):
    for left in range(1, ACK_BYTES):
        path = tmp_path / f"acks-{left}"
        written(path, *LINES)
        cut(path, 2 * ACK_BYTES + left)
        torn = [LINES[2].ljust(ACK_BYTES)[:left].encode()]
        assert (Acks.read(str(path)), Acks.torn(str(path))) == (LINES[:2], torn)
        written(path, "append s0 5 def")
        written(path, "append s0 6 fed")
        assert Acks.read(str(path)) == [*LINES[:2], "append s0 5 def", "append s0 6 fed"]
        assert Acks.torn(str(path)) == torn


def test_a_life_that_dies_while_it_fills_up_leaves_it_to_the_next(tmp_path: pathlib.Path):
    path = tmp_path / "acks"
    written(path, *LINES)
    cut(path, 2 * ACK_BYTES + 7)
    Acks(str(path))
    cut(path, 2 * ACK_BYTES + 90)
    written(path, "append s0 5 def")
    assert Acks.read(str(path)) == [*LINES[:2], "append s0 5 def"]
    assert Acks.torn(str(path)) == [b"command"]


def say_with_little_room(child: Child, arguments: dict[str, Any]) -> None:
    """A target whose last acknowledgement is really cut by the system."""
    acks = Acks(arguments["path"])
    acks.say(LINES[0])
    resource.setrlimit(resource.RLIMIT_FSIZE, (ACK_BYTES + 9, resource.RLIM_INFINITY))
    acks.say(LINES[1])


def test_a_write_that_the_system_cuts_is_an_error_and_torn(tmp_path: pathlib.Path):
    path = str(tmp_path / "acks")
    with KillRig(f"{__name__}:say_with_little_room", seed=0) as rig:
        with pytest.raises(RuntimeError, match="only 9 of 256 bytes of an acknowledgement could be written"):
            rig.run({"path": path})
    assert (Acks.read(path), Acks.torn(path)) == (LINES[:1], [b"blob s0 s"])


@pytest.mark.parametrize("store", ["sqlite", "jsonl"])
def test_the_oracle_does_not_look_for_what_was_cut(store: str, memory_path: pathlib.Path):
    """Each kind of acknowledgement is cut within its last word, where half a hash or half a number would name something
    that never was; then a life follows, whose acknowledgements are looked for and found."""
    arguments = {"store": store, "place": str(memory_path), "rounds": 9}
    path = memory_path / "acks.txt"
    with KillRig("tests.store.kill_targets:write", seed=0) as rig:
        rig.run(arguments)
        given = Acks.read(str(path))
        assert {line.split()[0] for line in given} == {"append", "blob", "command"}
        whole = path.read_bytes()
        for number, line in enumerate(given):
            path.write_bytes(whole[: number * ACK_BYTES + len(line) - 1])
            assert Acks.torn(str(path)) == [line[:-1].encode()]
            check_after_kill(arguments)
        rig.run(arguments)
    check_after_kill(arguments)
    assert len(Acks.torn(str(path))) == 1
    assert len(Acks.read(str(path))) > len(given)


def test_the_oracle_does_look_for_what_was_given(memory_path: pathlib.Path):
    """The same half of a line, given as a whole one, is missed."""
    arguments = {"store": "sqlite", "place": str(memory_path), "rounds": 9}
    path = memory_path / "acks.txt"
    with KillRig("tests.store.kill_targets:write", seed=0) as rig:
        rig.run(arguments)
    last = next(line for line in reversed(Acks.read(str(path))) if line.startswith("append"))
    written(path, last[:-1])
    with pytest.raises(AssertionError, match="was acknowledged and is not in the log"):
        check_after_kill(arguments)
