"""What a screen test says: which verb, in which of its three situations, called how, and the whole screen that follows.

Every verb has a normal, an empty (there is nothing to show or to act on) and an error screen; `test_screens_all.py`
fails where one is missing.
"""

from __future__ import annotations

import asyncio
import pathlib
import re
import shutil
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

import msgspec

from windlass.events.commands import QueueChanged
from windlass.events.questions import QuestionRequested
from windlass.events.runs import RunStarted
from windlass.events.stored import codec
from windlass.events.tools.calls import ToolRequested
from windlass.events.tools.permissions import PermissionRequested
from windlass.store import open_store
from windlass.store.base import Key
from windlass.store.chain import history

from .terminal import Terminal

Kind = Literal["normal", "empty", "error"]
Place = Literal["made", "empty", "bare"]
"""A folder with a store full of sessions, with an empty store, with none; agents are in all of them."""
T = TypeVar("T", bound=Callable[..., object])

COLUMNS = 80
CHANGING = (
    (r"(?m)^ +\d+(?=  \d\d:\d\d:\d\d)", "    N"),
    (r" +\d+ records\b", " N records"),
    (r"\brecord \d+", "record N"),
    (r"(?m)^\[\d+(?=[\]:])", "[N"),
    (r"\d\d:\d\d:\d\d", "12:00:00"),
    (r"\d{4}-\d\d-\d\d", "2026-01-01"),
    (r"AGE +COST", "AGE    COST"),
    (r"\b\d+ (?:ms|s|min) +\$", "0 s    $"),
    (r"\b\d+(?:\.\d)? (?:ms|s|min)\b", "0 s"),
    (r"\b[0-9a-f]{24}\b", "DIGEST"),
    (r"process \d+", "process 7"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "01234567-89ab-7cde-8000-000000000000"),
    (r"(records?  )[\w-]{16}(?![\w-])", r"\1HASH"),
    (r"[\d,]+ bytes", "N bytes"),
    (r"are marked \w{3}:", "are marked abc:"),
    (r"usage: (windlass \w+)[^']*\n", r"usage: \1 …\n"),
    (r"3\.\d+\.\d+ at\s+\S+(\n {20}\S+)*", "3.11.0 at PYTHON"),  # it may lie deep, and take several lines then
    (r"(?m)^(?:ok|remark) +sandbox .*\n(?: {20}.*\n)*", ""),  # each machine has its own
)
"""What differs from run to run, or with every new decision in a log, and what stands for it."""


DAY = "       2026-01-01 UTC\n"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One command and its whole screen, 80 columns wide. In both, an id is named by what it stands for, as in
    `<permission of march>` or `<prompt 2 of held>`, and looked up in the log."""

    verb: str
    kind: Kind
    words: str
    shown: str
    code: int = 0
    place: Place = "made"
    before: tuple[str, ...] = ()
    """Commands given before it, whose screens do not matter."""
    environ: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"{self.kind}: windlass {self.words}"


def settled(text: str) -> str:
    """A screen without what differs from run to run: also the second day in a log that was written at midnight."""
    for pattern, stands in CHANGING:
        text = re.sub(pattern, stands, text)
    first, *rest = text.split(DAY)
    return DAY.join([first, "".join(rest)]) if rest else text


def look(terminal: Terminal, case: Case, folder: pathlib.Path) -> tuple[int, str]:
    """Gives the commands of a case in a folder; the exit code and the screen of the last one."""
    import shlex

    terminal.folder = folder
    for words in case.before:
        terminal.shown(*shlex.split(words))
    environ = {"WINDLASS_CACHE": str(folder / "cache"), **case.environ}
    terminal.start(*shlex.split(with_ids(case.words, folder)), environ=environ)
    return terminal.end(), _as_wide(case, settled(terminal.history()))


def wanted(case: Case, folder: pathlib.Path) -> tuple[int, str]:
    """What `look` must give."""
    return case.code, _as_wide(case, settled(with_ids(case.shown, folder)))


def _as_wide(case: Case, screen: str) -> str:
    """A screen whose columns do not depend on how long the ids in it are."""
    return re.sub(r"(?<=\S) {2,}(?=\S)", "  ", screen) if NAMED.search(case.shown) else screen


NAMED = re.compile(r"<(\w+)(?: (\d))? of ([^>]+)>")


def with_ids(text: str, folder: pathlib.Path) -> str:
    """A text in which every thing that is named, such as `<call of wired>`, is called by its id."""
    return NAMED.sub(lambda named: id_of(folder, named[3], named[1], int(named[2] or 1)), text)


def id_of(folder: pathlib.Path, session: str, kind: str, number: int = 1) -> str:
    """The id of a session's first call, permission, question or run, of a prompt that was queued, or of a later one."""
    events = asyncio.run(_events(folder, session))
    match kind:
        case "call":
            ids = [event.call_id for event in events if isinstance(event, ToolRequested)]
        case "permission":
            ids = [event.request_id for event in events if isinstance(event, PermissionRequested)]
        case "question":
            ids = [event.question_id for event in events if isinstance(event, QuestionRequested)]
        case "run":
            ids = [event.run_id for event in events if isinstance(event, RunStarted)]
        case "prompt":
            queued = [event for event in events if isinstance(event, QueueChanged) and event.operation == "queued"]
            ids = [prompt_id for event in queued for prompt_id in event.prompt_ids]
        case _:
            raise AssertionError(f"what is a {kind}?")
    return ids[number - 1]


async def _events(folder: pathlib.Path, session: str) -> list[Any]:
    store = await open_store(folder / "windlass.db")
    try:
        appends = [codec.decode(sealed.data) async for sealed in history(store, Key("default", session))]
    finally:
        await store.close()
    return [event for append in appends for event in append.events]


def copied(folder: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    """A folder's copy, to be changed."""
    return pathlib.Path(shutil.copytree(folder, to))


PROVEN: set[tuple[str, str]] = set()
"""The screens that a test of its own proves, as (verb, kind)."""


def proves(verb: str, *kinds: Kind) -> Callable[[T], T]:
    """Says that a test proves screens of a verb which are no `Case`."""

    def mark(test: T) -> T:
        PROVEN.update((verb, kind) for kind in kinds)
        return test

    return mark


def proven(cases: Iterable[Case]) -> set[tuple[str, str]]:
    return {(case.verb, case.kind) for case in cases}
