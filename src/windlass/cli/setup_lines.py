"""The setup of a session in lines for people: what is about to work for them, under which rules, and what it was told.
Pure; everything that a file or an agent wrote is made visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import words
from .text import visible

if TYPE_CHECKING:
    from windlass.events.specs import Limits
    from windlass.runtime.instructions import InstructionFile
    from windlass.runtime.setup import SetupSummary, ToolSetup

DIGEST_CHARS = 8
TRUST = {True: "trusted", False: "not trusted", None: "as recorded"}


def setup_lines(summary: SetupSummary) -> list[str]:
    """All of it, a section after the other; what is empty is left out."""
    lines = [f"agent {visible(summary.agent)} · model {visible(summary.model)} · {summary.mode} mode"]
    if summary.workspace is not None:
        lines.append(workspace_line(summary))
    budget = [*_limits(summary.budget, "a run"), *_limits(summary.session_budget, "in all")]
    if budget:
        lines.append(f"budget {', '.join(budget)}")
    lines += _section("tools", words.table([_tool(tool) for tool in summary.tools]))
    lines += _section("instruction files", words.table([_file(file) for file in summary.instructions]))
    known = [f"{visible(entry.title)} ({words.plural(entry.tokens, 'token')})" for entry in summary.knowledge]
    lines += _section("knowledge", known)
    lines += _section("skills", [visible(name) for name in summary.skills])
    clashes = [f"{visible(c.name)}: {visible(', '.join(c.between))} ({visible(c.note)})" for c in summary.collisions]
    return lines + _section("names that collide", clashes)


def workspace_line(summary: SetupSummary) -> str:
    """Where it works: the folder, what git says of it, and whether it is trusted."""
    found = summary.workspace
    assert found is not None
    parts = [f"workspace {visible(found.cwd)}"]
    if found.repository is not None:
        parts.append(visible(found.repository))
    if found.branch is not None:
        parts.append(visible(found.branch))
    return " · ".join([*parts, TRUST[summary.trusted]])


def files_line(summary: SetupSummary) -> str:
    """Which instruction files are followed, or were found and not read; "" where there are none."""
    if summary.trusted is False and summary.instructions:
        names = ", ".join(visible(file.path) for file in summary.instructions)
        return f"found and not read: {names} (--trust has the agent follow them)"
    used = ", ".join(visible(file.path) for file in summary.instructions if file.used)
    return f"follows {used}" if used else ""


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _tool(tool: ToolSetup) -> list[str]:
    verdict = " · ".join([tool.verdict, *([visible(tool.why)] if tool.why else []), *map(visible, tool.conditions)])
    called = f" (as {visible(tool.alias)})" if tool.alias else ""
    later = " (deferred)" if tool.deferred else ""
    return [f"{visible(tool.name)}{called}{later}", tool.kind, visible(tool.source), tool.contract, verdict]


def _file(file: InstructionFile) -> list[str]:
    size = words.plural(file.bytes, "byte") if file.bytes else ""
    said = "; ".join([*(["used"] if file.used else []), *([visible(file.note)] if file.note else [])])
    return [visible(file.path), size, file.digest[:DIGEST_CHARS], said]


def _limits(limits: Limits, of: str) -> list[str]:
    found = []
    if limits.cost_nanos is not None:
        found.append(words.dollars(limits.cost_nanos))
    for count, noun in ((limits.tokens, "token"), (limits.turns, "turn"), (limits.calls, "call")):
        if count is not None:
            found.append(words.plural(count, noun))
    if limits.time_ms is not None:
        found.append(words.span(limits.time_ms))
    return [f"{each} {of}" for each in found]
