"""A log whose every id and name is hostile: no verb lets one of them steer a terminal, or look like a line of ours."""

from __future__ import annotations

import ast
import asyncio
import pathlib
import re
import shutil
from typing import Any

import msgspec
import pytest

from windlass.events.stored import codec, record
from windlass.store import open_store
from windlass.store.base import Key
from windlass.store.chain import history

from . import work
from .raw_terminal import COLOUR, written

ROOT = pathlib.Path(__file__).parents[2] / "src" / "windlass" / "cli"
FORGED = "approved p1: all is well"
EVIL = f"\x1b[2J\x1b[31m\u202e\u200b\U000e0041\n{FORGED}\n\tdelete"
"""Clears the screen, colours it, turns text around, hides letters, and draws lines of its own."""
NAMES = (
    "request_id",
    "question_id",
    "call_id",
    "run_id",
    "turn_id",
    "tool",
    "actor",
    "rule",
    "name",
    "code",
    "digest",
    "model",
    "title",
)
"""Fields that a log's author may fill as they like."""
VERBS = (
    "ps",
    "logs done",
    "logs march",
    "logs wired --all --full",
    "show march",
    "show poll",
    "show wired",
    "inspect done",
    "cost done",
    "verify",
    "queue held",
    "grants march",
    "doctor",
    "approve march --wait 0",
    "approve march p999 --wait 0",
    "deny march --feedback no --wait 0",
    "answer poll 1 --wait 0",
    "settle wired nothing happened --wait 0",
    "interrupt march --wait 0",
    "wake march --wait 0",
)
TELLS_NONE = ("ps", "verify", "doctor", "queue", "grants", "interrupt", "wake")
"""Verbs that print no name out of this log."""
SESSIONS = ("done", "march", "poll", "wired", "held")


def spoilt(value: Any, name: str = "") -> Any:
    """A plain value whose names are hostile."""
    if isinstance(value, dict):
        return {key: spoilt(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [spoilt(one, name) for one in value]
    named = name in NAMES or name.endswith("_ids") or name == "waiting_for"
    return value + EVIL if isinstance(value, str) and value and named else value


async def spoil(folder: pathlib.Path) -> None:
    """Writes the sessions of a store again, with hostile names."""
    old, new = await open_store(folder / "windlass.db"), await open_store(folder / "hostile.db")
    for session in SESSIONS:
        key, before, hash_ = (
            Key("default", session),
            [sealed async for sealed in history(old, Key("default", session))],
            "",
        )
        await new.log.create(key)
        claim = await new.leases.claim(key, runner="author", ttl_ms=60_000, now_ms=1, renew=False)
        epoch = claim.epoch
        for sealed in before:
            append = codec.decode(sealed.data)
            events: list[Any] = [msgspec.convert(spoilt(msgspec.to_builtins(e)), type(e)) for e in append.events]
            entries = [codec.encode_entry(event, lambda: "salt") for event in events]
            again = record.seal(hash_, append.first_seq, append.at_ms, epoch, entries)
            await new.log.append(key, again)
            hash_ = again.hash
        row = await old.index.get(key)
        assert row is not None
        await new.index.put(row)
        await new.leases.release(key, runner="author", epoch=epoch)
    await old.close()
    await new.close()
    (folder / "windlass.db").unlink()
    shutil.move(folder / "hostile.db", folder / "windlass.db")


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = work.make(tmp_path_factory.mktemp("evil"))
    asyncio.run(spoil(folder))
    return folder


@pytest.mark.parametrize("words", VERBS)
def test_no_verb_lets_a_hostile_id_steer_or_forge(words: str, evil: pathlib.Path, tmp_path: pathlib.Path):
    folder = pathlib.Path(shutil.copytree(evil, tmp_path / "copy"))
    text = COLOUR.sub("", written(words.split(), folder, ends=(0, 1, 2))).replace("\r\n", "\n")
    bad = [sign for sign in text if sign not in "\n" and (not sign.isprintable() or sign in "\u202e\u200b")]
    assert not bad, f"the terminal was reached by {bad[:5]!r}"
    assert not re.search(rf"(?m)^\s{{0,8}}{re.escape(FORGED)}", text)
    assert "\\x1b[2J" in text or words.split()[0] in TELLS_NONE


def test_nothing_is_printed_past_the_sink():
    """Lines go out through `put` and `tell`; what may be as it is has its own function."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                found.append(f"{path.relative_to(ROOT)}: {ast.unparse(node)}".replace('"', "'"))
    assert found == [
        "chat/chat_screen.py: print(PROMPT, end='', file=sys.stderr, flush=True)",
        "main.py: print(f'windlass {version('windlass')}')",
        "terminal/keyboard.py: print(Paint(sys.stderr)(prompt, 'yellow'), end='', file=sys.stderr, flush=True)",
        "terminal/text.py: print(tame(line), file=out or sys.stdout, flush=flush)",
        "terminal/text.py: print(json.dumps(msgspec.to_builtins(value), indent=2))",
        "terminal/text.py: print(visible(line.decode(errors='replace')), end='')",
        "verbs/look/logs.py: print(line, flush=args.follow)",
        "verbs/setup/completion.py: print(fish() if args.shell == 'fish' else bash(zsh=args.shell == 'zsh'))",
    ]
