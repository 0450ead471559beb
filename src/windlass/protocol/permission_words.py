"""Requests for permission in words, for whatever shows them to a person: all that would be done, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.events.tools.permissions import AnyDetail, Changed, HookDetail, ShellDetail, ToolDetail, WriteDetail
from windlass.events.values.access import SandboxTerms

CHANGES: dict[Changed, str] = {
    "code": "the tool's code has changed",
    "schema": "what the tool takes has changed",
    "contract": "what the tool promises about running twice has changed",
    "traits": "what the tool touches has changed",
    "rules": "the rules that judge it have changed",
    "mode": "the work mode has changed",
    "grant": "the standing approval that covered it has ended",
    "sandbox": "the sandbox that it would run in has changed",
    "labels": "what is untrusted or private among what the model has seen has changed",
}
"""Why a request is put before a person again."""
BACKGROUND = {"background": "in the background", "detached": "in the background, also after the session has ended"}


def changes(changed: Sequence[Changed]) -> str:
    """What has changed since a call was judged, in words."""
    return ", ".join(CHANGES[what] for what in changed)


def json_text(given: Any) -> str:
    """What a call is given, whole: a text as it is, an object as JSON."""
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2)


def detail_text(detail: AnyDetail) -> str:
    """What is to be done, whole."""
    if isinstance(detail, ToolDetail | HookDetail):
        return json_text(detail.text or {} if detail.args is None else detail.args)
    if isinstance(detail, ShellDetail):
        return shell_text(detail)
    if isinstance(detail, WriteDetail):
        head = f"{detail.path}\n{detail.intention}\n" if detail.intention else f"{detail.path}\n"
        return f"{head}{detail.diff or detail.new_content or ''}"
    plain: dict[str, Any] = msgspec.to_builtins(detail)
    return json.dumps({name: value for name, value in plain.items() if name != "kind"}, ensure_ascii=False, indent=2)


def shell_text(detail: ShellDetail) -> str:
    """A command: before it where and how it runs if that is not as usual, after it what is said of it."""
    head = f"in the folder {json.dumps(detail.cwd, ensure_ascii=False)}:\n" if detail.cwd != "." else ""
    head += f"{BACKGROUND.get(detail.background, detail.background)}:\n" if detail.background else ""
    said = f"\nintention, as the model says: {' '.join(detail.intention.split())}" if detail.intention.strip() else ""
    warning = f"\nwarning: {detail.warning}" if detail.warning else ""
    return f"{head}{detail.command}{said}{warning}"


def terms_said(terms: SandboxTerms) -> str:
    """Where a command would run, what holds it there, and what a yes would open."""
    holds = [
        "writes nothing outside of its folder" if terms.confines_files else "may write whatever you may",
        "reaches nobody" if terms.confines_network else "may reach anybody",
    ]
    where = f"in the sandbox {terms.name}" if terms.confines_files or terms.confines_network else "in no sandbox"
    lines = [f"{where}: it {' and '.join(holds)}"]
    if terms.opened is not None:
        lines.append(f"a yes lets it beyond that: {terms.access.said}")
    return "\n".join(lines)
