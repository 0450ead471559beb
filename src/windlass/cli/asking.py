"""Requests to a person, as they are shown: whole, behind a margin, and never as the model would like them to look.

Every line of an argument stands behind a bar that the model cannot draw at the edge of the screen, nothing is cut, and
what a terminal would obey is spelt out.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from windlass.events.permissions import AnyDetail, PermissionRequested, ShellDetail, ToolDetail, WriteDetail
from windlass.events.questions import QuestionBody, QuestionRequested

from .commands import word
from .text import Paint, fold_lines, visible, width_of

BAR = "│ "


def permission_lines(event: PermissionRequested, paint: Paint) -> list[str]:
    """A request for permission with everything that would be done."""
    detail = event.body.detail if event.body is not None else None
    why = event.body.why if event.body is not None else ""
    return asked_lines(event.request_id, event.tool, detail, why, event.digest, paint)


def asked_lines(request_id: str, tool: str, detail: AnyDetail | None, why: str, digest: str, paint: Paint) -> list[str]:
    """The same from its parts."""
    head = f"{visible(tool)} wants to run (request {request_id})"
    lines = [paint(head, "yellow")]
    if detail is not None:
        lines += barred(detail_text(detail))
    if why:
        lines += barred(f"why: {why}")
    lines.append(f"what an approval is bound to: {visible(digest)}")
    return lines


def detail_text(detail: AnyDetail) -> str:
    """What is to be done, whole."""
    if isinstance(detail, ToolDetail):
        given = detail.text if detail.args is None else json.dumps(detail.args, ensure_ascii=False, indent=2)
        return given or "{}"
    if isinstance(detail, ShellDetail):
        warning = f"\nwarning: {detail.warning}" if detail.warning else ""
        return f"{detail.command}{warning}"
    if isinstance(detail, WriteDetail):
        return f"{detail.path}\n{detail.diff or detail.new_content or ''}"
    plain: dict[str, Any] = msgspec.to_builtins(detail)
    return json.dumps({name: value for name, value in plain.items() if name != "kind"}, ensure_ascii=False, indent=2)


def question_lines(event: QuestionRequested, paint: Paint) -> list[str]:
    """A question with its options."""
    lines = [paint(f"a question ({event.question_id})", "yellow")]
    return lines + (body_lines(event.body) if event.body is not None else [])


def body_lines(body: QuestionBody) -> list[str]:
    lines = barred(body.message) if body.message else []
    if body.plan is not None:
        lines += barred(f"{body.plan.summary}\n\n{body.plan.content}")
        if body.plan.actions:
            lines += barred("actions: " + ", ".join(body.plan.actions))
    if body.form is not None:
        lines += barred("a form: " + json.dumps(body.form, ensure_ascii=False, indent=2))
    if body.url:
        lines += barred(body.url)
    for number, question in enumerate(body.questions, start=1):
        prefix = f"{number}. " if len(body.questions) > 1 else ""
        lines += barred(prefix + question.question)
        for index, option in enumerate(question.options, start=1):
            more = f": {option.description}" if option.description else ""
            lines += barred(f"  {index}) {option.label}{more}")
    return lines


def barred(text: str) -> list[str]:
    """Text behind a bar, wrapped, whole."""
    return [BAR + line for line in fold_lines(visible(text), width_of(sys.stdout) - len(BAR))]


def how_to_answer(session: str, ask_id: str, kind: str, at: str) -> list[str]:
    """The commands that answer it."""
    session = word(session)
    if kind == "permission":
        return [
            f"  windlass approve {session} {ask_id}{at}",
            f"  windlass deny {session} {ask_id} --feedback '...'{at}",
        ]
    return [f"  windlass answer {session} {ask_id} '...'{at}"]
