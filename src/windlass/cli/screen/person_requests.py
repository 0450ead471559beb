"""Requests to a person, as they are shown: whole, behind a margin, and never as the model would like them to look.

Every line of an argument stands behind a bar that the model cannot draw at the edge of the screen, nothing is cut, and
what a terminal would obey is spelt out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from windlass.cli.shell_lines import word
from windlass.cli.terminal.text import WIDTH_UNBOUND, Paint, fold_lines, is_terminal, width_of
from windlass.cli.terminal.visible_text import spelt, visible
from windlass.events.questions import QuestionBody, QuestionRequested
from windlass.events.tools.permissions import (
    AnyDetail,
    Changed,
    HookDetail,
    PermissionRequested,
    ShellDetail,
    ToolDetail,
    WriteDetail,
)
from windlass.events.values.access import SandboxTerms
from windlass.protocol.permission_words import changes, detail_text, json_text, terms_said
from windlass.runtime.api.approvals import PermissionAsk
from windlass.runtime.operate.open_requests import UnsettledCall

from .labels import since

BAR = "│ "
DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}
"""By how a line of a difference begins."""


def permission_lines(event: PermissionRequested, paint: Paint) -> list[str]:
    """A request for permission with everything that would be done."""
    detail = event.body.detail if event.body is not None else None
    why = event.body.why if event.body is not None else ""
    subject = event.body.subject if event.body is not None else None
    return asked_lines(
        event.request_id,
        event.tool,
        detail,
        why,
        event.digest,
        subject,
        paint,
        event.changed,
        event.joins,
        event.sandbox,
    )


def ask_lines(asked: PermissionAsk, paint: Paint) -> list[str]:
    """The same as an approver is asked, with what brought each label that the call would join."""
    legs = [
        line
        for provenance, subject in asked.sources
        for line in barred(since(provenance, subject), paint.out, exact=True)
    ]
    lines = asked_lines(
        asked.request_id,
        asked.tool,
        asked.detail,
        asked.why,
        asked.digest,
        asked.subject,
        paint,
        asked.changed,
        asked.joins,
        asked.sandbox,
    )
    return [*lines[:-2], *legs, *lines[-2:]] if legs else lines


def asked_lines(
    request_id: str,
    tool: str,
    detail: AnyDetail | None,
    why: str,
    digest: str,
    subject: str | None,
    paint: Paint,
    changed: Sequence[Changed] = (),
    joins: Sequence[str] = (),
    sandbox: SandboxTerms | None = None,
) -> list[str]:
    """The same from its parts."""
    head = f"{spelt(tool)} wants to run (request {spelt(request_id)})"
    lines = [paint(head, "yellow")]
    if changed:
        lines.append(f"asked again: {changes(changed)}")
    if detail is not None:
        lines += detail_lines(detail, paint)
    if sandbox is not None:
        lines += barred(terms_said(sandbox), paint.out, exact=True)
    if why:
        lines += barred(f"why: {why}", paint.out, exact=True)
    if subject is not None and not is_said(subject, detail):
        lines += barred(f"subject: {subject}", paint.out, exact=True)
    lines.append(f"an approval holds for exactly this call (digest {spelt(digest)})")
    if joins:
        lines.append("one for later calls does not speak of this: each that brings these together is asked about")
    return lines


def is_said(subject: str, detail: AnyDetail | None) -> bool:
    """Whether what is shown of a call is its subject and nothing else: it need not be read twice."""
    if isinstance(detail, ShellDetail):
        return detail.command == subject
    if not isinstance(detail, ToolDetail | HookDetail) or detail.args is None:
        return False
    try:
        return bool(json.loads(subject) == detail.args)
    except ValueError:
        return False


def unsettled_lines(call: UnsettledCall, paint: Paint) -> list[str]:
    """A call that was cut off while it ran, with what it was given: whoever says what became of it must know."""
    head = f"{spelt(call.tool)} [{spelt(call.name)}] was cut off while it ran, and may have had its effect"
    given = "(what it was given was erased)" if call.args is None else json_text(call.args)
    return [paint(head, "yellow"), *barred(given, paint.out, exact=True)]


def detail_lines(detail: AnyDetail, paint: Paint) -> list[str]:
    """What is to be done, whole, behind a bar; the lines of a difference in their colours."""
    text = detail_text(detail)
    if not isinstance(detail, WriteDetail) or not detail.diff:
        return barred(text, paint.out, exact=True)
    head = text.removesuffix(detail.diff)
    lines = barred(head.removesuffix("\n"), paint.out, exact=True)
    for line in detail.diff.removesuffix("\n").split("\n"):
        colour = DIFF_COLOURS.get(line[:1], "")
        lines += [BAR + paint(row.removeprefix(BAR), colour) for row in barred(line, paint.out, exact=True)]
    return lines


def question_lines(event: QuestionRequested, paint: Paint) -> list[str]:
    """A question with its options."""
    lines = [paint(f"a question ({spelt(event.question_id)})", "yellow")]
    return lines + (body_lines(event.body, paint.out) if event.body is not None else [])


def body_lines(body: QuestionBody, out: TextIO) -> list[str]:
    """What is asked, with all there is to choose from."""
    said_below = body.message in [question.question for question in body.questions]
    texts = [body.message] if body.message and not said_below else []
    if body.plan is not None:
        texts.append(f"{body.plan.summary}\n\n{body.plan.content}")
        if body.plan.actions:
            texts.append("actions: " + ", ".join(body.plan.actions))
    if body.form is not None:
        texts.append("a form: " + json.dumps(body.form, ensure_ascii=False, indent=2))
    if body.url:
        texts.append(body.url)
    for number, question in enumerate(body.questions, start=1):
        prefix = f"{number}. " if len(body.questions) > 1 else ""
        texts.append(prefix + question.question)
        for index, option in enumerate(question.options, start=1):
            more = f": {option.description}" if option.description else ""
            texts.append(f"  {index}) {option.label}{more}")
    return [line for text in texts for line in barred(text, out, exact=True)]


def barred(text: str, out: TextIO, *, exact: bool = False) -> list[str]:
    """Text behind a bar, whole; wrapped if what it is printed to is a screen."""
    width = width_of(out) if is_terminal(out) else WIDTH_UNBOUND
    return [BAR + line for line in fold_lines(visible(text, exact=exact), width - len(BAR))]


def how_to_answer(session: str, ask_id: str, kind: str, at: str) -> list[str]:
    """The commands that answer it."""
    session = word(session)
    if kind == "permission":
        return [
            f"  windlass approve {session} {word(ask_id)}{at}",
            f"  windlass deny {session} {word(ask_id)} --feedback '...'{at}",
        ]
    return [f"  windlass answer {session} {word(ask_id)} '...'{at}"]
