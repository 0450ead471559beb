"""`windlass machine`: check a state machine, show one, draw one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.events.values.machines import MachineSpec
    from windlass.runtime.machines.machine import Machine
    from windlass.runtime.machines.machine_view import MachineView

EXAMPLES = """examples:
  windlass machine check shepherd.yaml               can it be gone through? what does it do?
  windlass machine show pr-7                         where the machine of a session stands, and every step it took
  windlass machine diagram shepherd.py:shepherd      its diagram as Mermaid text; --svg draws it
  windlass machine diagram pr-7 --svg                the same of a session, with the current state filled
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("action", choices=("check", "show", "diagram"), help="what to do")
    parser.add_argument(
        "machine", metavar="MACHINE", help="a file (.yaml, .json, FILE.py:NAME); of show and diagram: also a session"
    )
    parser.add_argument("--svg", action="store_true", help="draw the diagram as SVG, and not as Mermaid text")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options.add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    if not _is_file(args.machine) and args.action != "check":
        return asyncio.run(of_session(args))
    machine = loaded(args)
    if args.action == "diagram":
        return draw(args, machine.spec)
    return check(args, machine.spec)


def _is_file(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml", ".json")) or ".py:" in name


def loaded(args: argparse.Namespace) -> Machine:
    """The machine that is named. Raises `UsageError` with all that is wrong with it."""
    from windlass.events.errors import UsageError
    from windlass.runtime.machines.machine import Machine
    from windlass.runtime.machines.machine_files import load_machine

    if ".py:" in args.machine:
        from windlass.cli.agents import from_file

        return from_file(args.machine, Machine, "machine")
    if not _is_file(args.machine):
        raise UsageError(f"{args.machine!r} is no file of a state machine: .yaml, .json or FILE.py:NAME")
    return load_machine(args.machine)


def check(args: argparse.Namespace, spec: MachineSpec) -> int:
    """Says what a machine does. One that cannot be gone through was refused before, with what is wrong."""
    from windlass.cli.screen import tables
    from windlass.cli.screen.graphs import machine_lines
    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt

    if args.json:
        tell_json({"machine": spec.name, "states": [one.name for one in spec.states], "sound": True})
        return 0
    put(f"{spelt(spec.name)}: {plural(len(spec.states), 'state')}, sound; it begins with {spelt(spec.first)}")
    for line in tables.table(machine_lines.state_rows(spec)):
        put(line)
    return 0


def draw(args: argparse.Namespace, spec: MachineSpec, current: str = "") -> int:
    """Prints the diagram."""
    from windlass.cli.terminal.text import put, tell_json
    from windlass.runtime.machines.diagrams import mermaid, svg

    drawn = (svg if args.svg else mermaid)(spec, current)
    if args.json:
        tell_json({"machine": spec.name, "diagram": drawn})
        return 0
    for line in drawn.splitlines():
        put(line)
    return 0


async def of_session(args: argparse.Namespace) -> int:
    """Shows or draws the machine of a session in the store."""
    from windlass.cli import stores
    from windlass.events.errors import UsageError
    from windlass.runtime.machines.machine_view import stored_view

    async with stores.opened(args) as store:
        key = await stores.session_key(store, args, args.machine)
        view, waits = await stored_view(store, key)
    if view is None:
        raise UsageError(f"{key.session!r} has no state machine: 'windlass show {key.session}' shows any session")
    if args.action == "diagram":
        return draw(args, view.definition, view.state if view.status != "none" else "")
    return show(args, key.session, view, waits)


def show(args: argparse.Namespace, session: str, view: MachineView, waits: tuple[str, ...]) -> int:
    """Says where a machine stands, and every step that it took."""
    from windlass.cli.screen import tables
    from windlass.cli.screen.graphs import machine_lines
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt

    if args.json:
        tell_json(view)
        return 0
    put(f"session {spelt(session)}, machine {machine_lines.stands(view, waits)}")
    rows = machine_lines.step_rows(view) if view.progress else machine_lines.state_rows(view.definition)
    for line in tables.table(rows):
        put(line)
    return 0
