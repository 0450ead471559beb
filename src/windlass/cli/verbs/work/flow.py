"""`windlass flow`: check a workflow, carry it out, look at one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.api.flows import FlowResult, FlowRun
    from windlass.runtime.flows.flow import Flow

CREDENTIALS = "credentials"
EXAMPLES = """examples:
  windlass flow check review.yaml                    can it be carried out? what does it do?
  windlass flow run review.yaml --input 'the plan'   carries it out, one line for each node, then the output
  windlass flow run review.py:flow --id march        one of a Python file, under a name; the same name goes on with it
  windlass flow show review.yaml --mermaid           its diagram as Mermaid text; --svg draws it
  windlass flow show march                           how far a workflow in the store has got
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("action", choices=("check", "run", "show"), help="what to do")
    parser.add_argument("flow", metavar="FLOW", help="a file (.yaml, .json, FILE.py:NAME); of show: also a session")
    parser.add_argument("--input", metavar="TEXT", help="what it is given; @FILE reads a file, JSON is taken as such")
    parser.add_argument("--id", metavar="NAME", help="the session that carries it out; the one of this name goes on")
    parser.add_argument("--model", metavar="NAME", help="the model of agents for which the file names none")
    parser.add_argument("--mermaid", action="store_true", help="print a diagram as Mermaid text")
    parser.add_argument("--svg", action="store_true", help="print a diagram as SVG")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options.add_workspace(parser)
    options.add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    if args.action == "check":
        return check(args, loaded(args))
    if args.action == "run":
        return asyncio.run(carry_out(args, loaded(args)))
    return show_file(args, loaded(args)) if _is_file(args.flow) else asyncio.run(show_session(args))


def _is_file(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml", ".json")) or ".py:" in name


def loaded(args: argparse.Namespace) -> Flow:
    """The workflow that is named. Raises `UsageError` with all that is wrong with it."""
    from windlass.events.errors import UsageError
    from windlass.runtime.flows.flow import Flow
    from windlass.runtime.flows.flow_files import load_flow

    if ".py:" in args.flow:
        from windlass.cli.agents import from_file

        return from_file(args.flow, Flow, "flow")
    if not _is_file(args.flow):
        raise UsageError(f"{args.flow!r} is no file of a workflow: .yaml, .json or FILE.py:NAME")
    return load_flow(args.flow, model=args.model)


def check(args: argparse.Namespace, flow: Flow) -> int:
    """Says what a workflow does. One that cannot be carried out was refused before, with what is wrong."""
    from windlass.cli.screen import tables
    from windlass.cli.screen.graphs import flow_lines
    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt

    if args.json:
        tell_json({"flow": flow.name, "nodes": [node.name for node in flow.graph.nodes], "sound": True})
        return 0
    put(f"{spelt(flow.name)}: {plural(len(flow.graph.nodes), 'node')}, sound")
    for line in tables.table(flow_lines.graph_rows(flow.graph)):
        put(line)
    return 0


async def carry_out(args: argparse.Namespace, flow: Flow) -> int:
    """Carries a workflow out: a line for each node as it comes and goes, then what it gave."""
    import os

    import windlass

    async with windlass.open(options.place_to_write(args), agents=[flow], tenant=args.tenant, take_up=False) as runtime:
        begun = await runtime.flow(flow, args.id, input=_input(args.input), workspace=os.curdir, trusted=args.trust)
        await try_keys_again(begun)
        if not args.json:
            await tell_progress(begun, flow)
        result = await begun.result()
        keys = await keys_missing(begun, result)
    return told(args, begun, result, keys)


async def try_keys_again(begun: FlowRun) -> None:
    """Whoever goes on with a workflow means those of its children, too, whose provider had wanted a key."""
    if not begun.since:
        return
    for name in (await begun.result()).waiting_for if await begun.rests() else ():
        child, what = begun.session.asker(name)
        if what == CREDENTIALS:
            await child.wake()


async def tell_progress(begun: FlowRun, flow: Flow) -> None:
    """Says what becomes of each node from now on; how far it had got before is said in one line."""
    import sys

    from windlass.cli.screen.graphs.flow_lines import ENDED, Progress
    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt

    before = await begun.nodes_at_first()
    ended = [name for name, status in before.items() if status in ENDED]
    so_far = f": {len(ended)} of {len(before)} nodes had ended before" if begun.since else ""
    put(f"workflow {spelt(begun.flow_id)}{so_far}", sys.stderr)
    if begun.since and not await begun.has_graph(flow.graph):
        put("it was begun with another graph than this file has, and goes on with that one", sys.stderr)
    progress = Progress(len(before) or len(flow.graph.nodes), ended)
    async for event in begun.progress(after=begun.since):
        put(progress.line(event), sys.stderr, flush=True)


async def keys_missing(begun: FlowRun, result: FlowResult) -> list[str]:
    """For each child session that waits for the key of a provider: which node it works for, and what was said."""
    lines = []
    for name in result.waiting_for:
        child, what = begun.session.asker(name)
        if what == CREDENTIALS:
            ended, state = await child.result(), await child.state()
            why = ended.failure.message if ended.failure is not None else "the provider takes no request without a key"
            lines.append(f"{state.setup.title} ({state.setup.agent.name}): {why}")
    return lines


def _input(text: str | None) -> Any:
    """What a workflow is given: JSON as such, everything else as a text."""
    import json

    from windlass.cli.agents import read_text

    if text is None:
        return None
    said = read_text(text[1:]) if text.startswith("@") else text
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return said


def told(args: argparse.Namespace, begun: FlowRun, result: FlowResult, keys: list[str]) -> int:
    """Prints what came of a workflow; how it ended is the exit code."""
    from windlass.cli.exits import ASKED, FAILED, OK, SLEEPING
    from windlass.cli.screen.graphs.flow_lines import as_text
    from windlass.cli.terminal.text import tell, tell_json
    from windlass.cli.terminal.visible_text import visible

    if args.json:
        tell_json(result)
    elif result.ok:
        tell(visible(as_text(result.output)))
    else:
        tell_rest(args, begun, result, keys)
    return {"completed": OK, "asked": ASKED, "sleeping": SLEEPING}.get(result.status, FAILED)


def tell_rest(args: argparse.Namespace, begun: FlowRun, result: FlowResult, keys: list[str]) -> None:
    """Says why a workflow rests or failed, and the command that goes on with it."""
    import sys

    from windlass.cli import shell_lines
    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt

    name, at = shell_lines.word(begun.flow_id), shell_lines.at(args)
    again = f"  {shell_lines.flow_of(begun.flow_id, args, args.flow)}"
    if result.status == "sleeping":
        put("it sleeps until a time:", sys.stderr)
    elif result.status == "asked":
        for line in keys:
            put(f"it waits for a key: {spelt(line)}", sys.stderr)
        waits = ", ".join(one for one in result.waiting_for if one.rpartition("/")[2] != CREDENTIALS)
        if waits:
            put(f"it waits for {spelt(waits)}: 'windlass show {name}{at}' says for what, and how to answer", sys.stderr)
    else:
        why = result.failure.message if result.failure is not None else result.status
        put(f"windlass: {spelt(why)}", sys.stderr)
        put(f"  windlass wake {name}{at}", sys.stderr)
    put(again, sys.stderr)


def show_file(args: argparse.Namespace, flow: Flow) -> int:
    """Shows the graph of a file."""
    if not drawn(args, flow.graph, {}):
        return check(args, flow)
    return 0


async def show_session(args: argparse.Namespace) -> int:
    """Shows how far a workflow in the store has got."""
    from windlass.cli import stores
    from windlass.cli.screen import tables
    from windlass.cli.screen.graphs import flow_lines
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.runtime.api.flows import kept_flow

    async with stores.opened(args) as store:
        key = await stores.session_key(store, args, args.flow)
        flow = await kept_flow(store, key)
    if flow is None:
        raise UsageError(f"{key.session!r} is no workflow: 'windlass show {key.session}' shows any session")
    graph, nodes = flow
    if drawn(args, graph, {name: node.status for name, node in nodes.items()}):
        return 0
    if args.json:
        tell_json(nodes)
        return 0
    put(f"workflow {spelt(key.session)}")
    for line in tables.table(flow_lines.node_rows(nodes)):
        put(line)
    return 0


def drawn(args: argparse.Namespace, graph: Any, statuses: dict[str, str]) -> bool:
    """Prints a diagram if one is wanted."""
    from windlass.cli.terminal.text import put
    from windlass.runtime.flows.diagrams.mermaid import mermaid
    from windlass.runtime.flows.diagrams.svg import svg

    if not args.mermaid and not args.svg:
        return False
    for line in (svg if args.svg else mermaid)(graph, statuses).splitlines():
        put(line)
    return True
