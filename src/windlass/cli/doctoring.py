"""`windlass doctor`: finds and explains problems of the installation, the models, the keys and the store."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

from windlass.events.errors import WindlassError
from windlass.store.base import Key, Query

from . import options, stores, words
from .text import Paint, fold_lines, is_terminal, tell, tell_json, visible, width_of

NEEDED = {
    "msgspec": "the codec",
    "apsw": "the SQLite store",
    "aiohttp": "models over HTTP",
    "jsonschema_rs": "the schemas of tools",
}

NO_MODEL = "; it is not installed: run 'windlass models pull embedded', or set a key such as ANTHROPIC_API_KEY"
MARGIN = " " * 20
WIDE = 10_000
"""What does not go to a screen is not folded."""

Finding = tuple[str, str, str]
"""How it is (`ok`, `remark`, `wrong`), what it is about, and what to do."""


def run(args: argparse.Namespace) -> int:
    """Does it."""
    found = [*installation(), *models(), *asyncio.run(store(args))]
    if args.json:
        rows = [{"status": status, "about": about, "finding": said} for status, about, said in found]
        tell_json(rows)
    else:
        show(found)
    return 1 if any(status == "wrong" for status, _, _ in found) else 0


def show(found: list[Finding]) -> None:
    paint = Paint()
    colours = {"ok": "green", "remark": "yellow", "wrong": "red"}
    for status, about, said in found:
        mark = paint(f"{status:6}", colours[status])
        room = width_of(sys.stdout) - len(MARGIN) if is_terminal(sys.stdout) else WIDE
        first, *rest = fold_lines(visible(said), room)
        print(f"{mark}  {about:10}  {first}")
        for piece in rest:
            print(MARGIN + piece)
    wrong = sum(status == "wrong" for status, _, _ in found)
    tell(f"{words.plural(wrong, 'problem')} to mend" if wrong else "nothing is wrong")


def installation() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield ("ok" if sys.version_info >= (3, 11) else "wrong", "python", f"{version} at {sys.executable}")
    for name, what in NEEDED.items():
        if importlib.util.find_spec(name) is None:
            yield "wrong", "package", f"{name} is missing ({what} needs it): pip install windlass"
    if importlib.util.find_spec("xllamacpp") is None:
        yield "remark", "package", "the embedded model has no engine: pip install 'windlass[embedded]'"
    if importlib.util.find_spec("cel") is None:
        yield "remark", "package", "conditions in policies (when=) need their language: pip install 'windlass[cel]'"


def models() -> Iterator[Finding]:
    from windlass.models.catalogue import default_catalogue, resolve
    from windlass.models.embedded import missing, model_path

    keys = [
        f"{endpoint.name} ({variable})"
        for endpoint in default_catalogue().endpoints.values()
        for variable in endpoint.key_env
        if os.environ.get(variable, "").strip()
    ]
    yield (
        "ok" if keys else "remark",
        "keys",
        ", ".join(keys) or "none in the environment: only local models can be used",
    )
    problem = missing(model_path())
    yield ("remark", "embedded", problem) if problem else ("ok", "embedded", f"the model is at {model_path()}")
    try:
        chosen = resolve()
    except WindlassError as error:
        yield "wrong", "model", str(error)
        return
    usable = chosen.provider != "embedded" or problem is None
    yield "ok" if usable else "wrong", "model", f"{chosen.name} would be used: {chosen.why}{'' if usable else NO_MODEL}"


async def store(args: argparse.Namespace) -> list[Finding]:
    """What can be said of the store without walking all of it."""
    place = options.place_of(args)
    if not options.is_there(place):
        return [("remark", "store", f"there is none at {place!r} yet: 'windlass run' begins one")]
    try:
        async with stores.opened(args) as opened:
            rows: list[Any] = await opened.find(Query(tenant=args.tenant, limit=stores.FIND_MAX))
            found: list[Finding] = [
                ("ok", "store", f"{place}: {words.plural(len(rows), 'session')}, durability {opened.durability}")
            ]
            for row in rows:
                head = await opened.head(Key(args.tenant, row.session))
                if head is not None and head.damage:
                    found.append(("wrong", "session", f"{row.session} is damaged: {head.damage}"))
            found += waiting(rows)
            return found
    except WindlassError as error:
        return [("wrong", "store", f"{place}: {error}")]


def waiting(rows: list[Any]) -> Iterator[Finding]:
    now = stores.now_ms()
    asked = [row.session for row in rows if row.state == "asked"]
    if asked:
        yield "remark", "sessions", f"{len(asked)} wait for a person: 'windlass ps --waiting'"
    late = [row.session for row in rows if row.next_wake_ms is not None and row.next_wake_ms < now - 60_000]
    if late:
        yield "remark", "sessions", f"{len(late)} were to wake and nobody drives them: {', '.join(late[:3])}"
    owed = [row for row in rows if row.owed and row.updated_ms < now - 60_000]
    for row in owed[:10]:
        yield "remark", "sessions", f"{row.session} was cut off: it goes on when agent {row.agent!r} is run"
