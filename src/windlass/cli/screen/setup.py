"""The setup of a session in lines for people: what is about to work for them, under which rules, and what it was told.
Pure; everything that a file or an agent wrote is made visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.cli.terminal.visible_text import spelt

from . import number_words
from .sandbox_words import sandbox_name

if TYPE_CHECKING:
    from windlass.events.values.setup import Limits
    from windlass.runtime.api.setup_summary import SetupSummary, ToolSetup
    from windlass.runtime.workspace.instruction_files import InstructionFile

DIGEST_CHARS = 8
TRUST = {True: "trusted", False: "not trusted", None: "as recorded"}


def setup_lines(summary: SetupSummary) -> list[str]:
    """All of it, a section after the other; what is empty is left out."""
    lines = [f"agent {spelt(summary.agent)} · model {spelt(summary.model)} · {summary.mode} mode"]
    if summary.specialist is not None:
        lines.append(f"run by its specialist {spelt(summary.specialist)}")
    if summary.workspace is not None:
        lines.append(workspace_line(summary))
    if summary.sandbox is not None or any(tool.kind == "shell" for tool in summary.tools):
        lines.append(f"sandbox {sandbox_name(summary.sandbox)}")
    budget = [*_limits(summary.budget, "a run"), *_limits(summary.session_budget, "in all")]
    if budget:
        lines.append(f"budget {', '.join(budget)}")
    lines += _section("tools", number_words.table([_tool(tool) for tool in summary.tools]))
    lines += _section("instruction files", number_words.table([_file(file) for file in summary.instructions]))
    known = [f"{spelt(entry.title)} ({number_words.plural(entry.tokens, 'token')})" for entry in summary.knowledge]
    lines += _section("knowledge", known)
    lines += _section("skills", [spelt(name) for name in summary.skills])
    clashes = [f"{spelt(c.name)}: {spelt(', '.join(c.between))} ({spelt(c.note)})" for c in summary.collisions]
    return lines + _section("names that collide", clashes)


def workspace_line(summary: SetupSummary) -> str:
    """Where it works: the folder, what git says of it, and whether it is trusted."""
    folder = summary.workspace
    assert folder is not None
    parts = [f"workspace {spelt(folder.cwd)}"]
    if folder.repository is not None:
        parts.append(spelt(folder.repository))
    if folder.branch is not None:
        parts.append(spelt(folder.branch))
    return " · ".join([*parts, TRUST[summary.trusted]])


def files_line(summary: SetupSummary) -> str:
    """Which instruction files are followed, or were found and not read; "" if there are none."""
    if summary.trusted is False and summary.instructions:
        names = ", ".join(spelt(file.path) for file in summary.instructions)
        return f"found and not read: {names} (with --trust the agent follows them)"
    used = ", ".join(spelt(file.path) for file in summary.instructions if file.used)
    return f"follows {used}" if used else ""


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _tool(tool: ToolSetup) -> list[str]:
    verdict = " · ".join([tool.verdict, *([spelt(tool.why)] if tool.why else []), *map(spelt, tool.conditions)])
    called = f" (as {spelt(tool.alias)})" if tool.alias else ""
    later = " (deferred)" if tool.deferred else ""
    return [f"{spelt(tool.name)}{called}{later}", tool.kind, spelt(tool.source), tool.contract, verdict]


def _file(file: InstructionFile) -> list[str]:
    size = number_words.plural(file.bytes, "byte") if file.bytes else ""
    said = "; ".join([*(["used"] if file.used else []), *([spelt(file.note)] if file.note else [])])
    return [spelt(file.path), size, file.digest[:DIGEST_CHARS], said]


def _limits(limits: Limits, of: str) -> list[str]:
    shown = []
    if limits.cost_nanos is not None:
        shown.append(number_words.dollars(limits.cost_nanos))
    for count, noun in ((limits.tokens, "token"), (limits.turns, "turn"), (limits.calls, "call")):
        if count is not None:
            shown.append(number_words.plural(count, noun))
    if limits.time_ms is not None:
        shown.append(number_words.span(limits.time_ms))
    return [f"{each} {of}" for each in shown]
