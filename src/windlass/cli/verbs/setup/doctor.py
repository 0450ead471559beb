"""`windlass doctor`: finds and explains problems of the installation, the models, the keys and the store."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from windlass.store.base import IndexRow, Key, Store

EXAMPLES = """examples:
  windlass doctor                    what is fine, what is not, and what to do about it
  windlass doctor --json             for programs

exit codes: 0 nothing is wrong (remarks are allowed), 1 something is
"""

NEEDED = {
    "msgspec": "the codec",
    "apsw": "the SQLite store",
    "aiohttp": "models over HTTP",
    "jsonschema_rs": "the schemas of tools",
    "prompt_toolkit": "the input of a chat",
    "rich": "tables and Markdown on a terminal",
}

NO_MODEL = "; it is not installed: run 'windlass models pull embedded', or set a key such as ANTHROPIC_API_KEY"
MARGIN = " " * 20
COLOURS = {"ok": "green", "remark": "yellow", "wrong": "red"}
LATE_MS = 60_000
LOOKED_AT = 500
"""Into how many sessions it looks, the newest first."""
WIDE = 10_000
"""What does not go to a screen is not folded."""

Finding = tuple[str, str, str]
"""How it is (`ok`, `remark`, `wrong`), what it is about, and what to do."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    from windlass.cli.terminal.text import tell_json

    findings = [*installation(), *models(), *sandboxes(), *asyncio.run(of_store(args))]
    if args.json:
        tell_json([{"status": status, "about": about, "finding": said} for status, about, said in findings])
    else:
        show(findings)
    return 1 if any(status == "wrong" for status, _, _ in findings) else 0


def show(findings: list[Finding]) -> None:
    """A line for each, folded on a screen, and whether something must be mended."""
    import sys

    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.text import Paint, fold_lines, is_terminal, put, tell, width_of
    from windlass.cli.terminal.visible_text import visible

    paint = Paint()
    room = width_of(sys.stdout) - len(MARGIN) if is_terminal(sys.stdout) else WIDE
    for status, about, said in findings:
        mark = paint(f"{status:6}", COLOURS[status])
        first, *rest = fold_lines(visible(said), room)
        put(f"{mark}  {about:10}  {first}")
        for piece in rest:
            put(MARGIN + piece)
    wrong = sum(status == "wrong" for status, _, _ in findings)
    tell(f"{plural(wrong, 'problem')} to mend" if wrong else "nothing is wrong")


def installation() -> Iterator[Finding]:
    """Python and the packages."""
    import importlib.util
    import sys

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
    """The keys, the embedded model, and which model would be used."""
    import os

    from windlass.events.errors import WindlassError
    from windlass.models.catalogue.names import default_catalogue, resolve
    from windlass.models.embedded.model import missing, model_path

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
    yield from addresses(os.environ)
    problem = missing(model_path())
    yield ("remark", "embedded", problem) if problem else ("ok", "embedded", f"the model is at {model_path()}")
    try:
        chosen = resolve()
    except WindlassError as error:
        yield "wrong", "model", str(error)
        return
    usable = chosen.provider != "embedded" or problem is None
    yield "ok" if usable else "wrong", "model", f"{chosen.name} would be used: {chosen.why}{'' if usable else NO_MODEL}"


def sandboxes() -> Iterator[Finding]:
    """Which sandboxes work here, which of them `--sandbox auto` would take, and why not the others."""
    from windlass.tools.sandboxes.choice import best, candidates

    contenders = candidates()
    chosen = best(contenders)
    for each in contenders:
        if each.name == chosen:
            yield "ok", "sandbox", f"{each.name} works: '--sandbox auto' takes it"
        elif each.problem is None:
            yield "ok", "sandbox", f"{each.name} works too"
        else:
            yield "remark", "sandbox", f"{each.name} cannot be used: {each.problem}"
    if chosen == "local":
        yield "remark", "sandbox", "nothing confines commands here: '--sandbox auto' takes local, which does not"


def addresses(environ: Mapping[str, str]) -> list[Finding]:
    """The endpoints that the environment moves elsewhere, and what is wrong with where."""
    from urllib.parse import urlsplit

    from windlass.models.catalogue.endpoints import address_problem, configured, key_from
    from windlass.models.catalogue.names import default_catalogue

    findings: list[Finding] = []
    for endpoint in default_catalogue().endpoints.values():
        moved = configured(endpoint, environ)
        keyed = key_from(endpoint, environ) is not None
        if moved.base_url == endpoint.base_url:
            continue
        if (problem := address_problem(moved, keyed=keyed)) is not None:
            findings.append(("wrong", "address", f"{endpoint.name}: {problem}"))
        elif keyed and urlsplit(moved.base_url).scheme == "http":
            said = f"{endpoint.name}: {moved.base_url} is plain http: its key is sent in the clear"
            findings.append(("remark", "address", said))
    return findings


async def of_store(args: argparse.Namespace) -> list[Finding]:
    """What can be said of the store without walking all of it."""
    from windlass.cli import stores
    from windlass.events.errors import WindlassError

    place = options.place_of(args)
    if options.url_of(args):
        return [("remark", "store", f"{place} is a server: stores are looked at on their own machine, with --store")]
    if not options.is_there(place):
        return [("remark", "store", f"there is none at {place!r} yet: 'windlass run' begins one")]
    try:
        async with stores.opened(args) as store:
            return await of_sessions(store, place, args.tenant)
    except WindlassError as error:
        return [("wrong", "store", f"{place}: {error}")]


async def of_sessions(store: Store, place: str, tenant: str) -> list[Finding]:
    """Which sessions are damaged, wait for a person or were left by whoever drove them."""
    from windlass.cli import stores
    from windlass.cli.screen.number_words import plural
    from windlass.runtime.operate.disk_room import no_room
    from windlass.store.base import Key, Query

    rows = await store.index.find(Query(tenant=tenant, limit=stores.FIND_MAX))
    findings: list[Finding] = [
        ("ok", "store", f"{place}: {plural(len(rows), 'session')}, durability {store.durability}")
    ]
    full = no_room(place)
    if full:
        findings.append(("wrong", "store", full))
    for row in rows[:LOOKED_AT]:
        trouble = await trouble_of(store, Key(tenant, row.session))
        if trouble:
            findings.append(("wrong", "session", f"{row.session} {trouble}"))
    if len(rows) > LOOKED_AT:
        said = f"only the newest {LOOKED_AT} were looked into: 'windlass verify' reads every one"
        findings.append(("remark", "sessions", said))
    return [*findings, *waiting(rows, stores.now_ms())]


async def trouble_of(store: Store, key: Key) -> str:
    """What keeps a session from being opened: what the store says, or the reading of what opening reads."""
    from windlass.events.errors import KernelError, StoreError, WindlassError
    from windlass.runtime.operate.verification import was_in_the_way
    from windlass.runtime.streams.log_reader import LogReader

    try:
        head = await store.log.head(key)
        if head is None or head.damage:
            return f"is damaged: {head.damage if head is not None else 'the index has it, and the store has no log'}"
        await LogReader(store).fold(key, head)
    except (KernelError, StoreError) as error:
        return f"could not be read: {error}" if was_in_the_way(error) else f"is damaged: {error}"
    except WindlassError:
        return ""  # of a newer version, say: it cannot be opened here, and is not damaged
    except Exception as error:  # of bytes that nobody foresaw; the other sessions are looked at all the same
        said = "could not be read" if was_in_the_way(error) else "is damaged: it cannot be read"
        return f"{said}: {error!r}"
    return ""


def waiting(rows: list[IndexRow], now: int) -> Iterator[Finding]:
    """Sessions that wait, for a person or for somebody to drive them."""
    asked = [row.session for row in rows if row.state == "asked"]
    if asked:
        yield "remark", "sessions", f"{len(asked)} wait for a person: 'windlass ps --waiting'"
    late = [row.session for row in rows if row.next_wake_ms is not None and row.next_wake_ms < now - LATE_MS]
    if late:
        yield "remark", "sessions", f"{len(late)} are overdue and nobody drives them: {', '.join(late[:3])}"
    cut_off = [row for row in rows if row.owed and row.updated_ms < now - LATE_MS]
    for row in cut_off[:10]:
        yield "remark", "sessions", f"{row.session} was cut off: it continues when agent {row.agent!r} is run"
