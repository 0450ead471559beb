"""`windlass approve`, `deny`, `answer` and `settle`: what a person says to a session that waits for them.

What is said goes into the session's inbox, bound to what was shown; whoever drives the session takes it from there.
"""

from __future__ import annotations

import argparse
import asyncio

from windlass.events.base import Command
from windlass.events.blocks import Text
from windlass.events.calls import ResultBody, ToolSettled
from windlass.events.errors import UsageError
from windlass.events.permissions import FeedbackBody, PermissionApproved, PermissionDenied, PermissionRequested
from windlass.events.questions import Answer, AnswerBody, AnswerReceived, QuestionRequested
from windlass.kernel.state import Ask
from windlass.models.tokens import estimate_text
from windlass.store.base import Store

from . import asking, sending, stores
from .text import Paint, visible


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(answer(args))


async def answer(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        found = await stores.folded(store, key)
        command, shown, what = COMMANDS[args.verb](args, found)
        for line in shown:
            print(line)
        return await sent(store, found, command, what, args)


async def sent(store: Store, found: stores.Folded, command: Command, what: str, args: argparse.Namespace) -> int:
    return await sending.send(store, found.key, command, what, args)


def _asked(found: stores.Folded, wanted: str | None, kind: str) -> Ask:
    """The open request that is meant. Raises `UsageError` with those that are open."""
    asks = {ask.ask_id: ask for ask in found.state.asks.values() if ask.kind == kind}
    session = found.key.session
    if not asks:
        raise UsageError(f"session {session!r} waits for no {kind}: 'windlass show {session}' says what it does")
    listed = ", ".join(f"{ask.ask_id} ({ask.tool})" if ask.tool else ask.ask_id for ask in asks.values())
    if wanted is None:
        if len(asks) > 1:
            raise UsageError(f"several are open, say which: {listed}")
        return next(iter(asks.values()))
    if wanted not in asks:
        raise UsageError(f"no open {kind} {wanted!r} in session {session!r}: open are {listed}")
    return asks[wanted]


Made = tuple[Command, list[str], str]


def _approve(args: argparse.Namespace, found: stores.Folded) -> Made:
    ask = _asked(found, args.request, "permission")
    event = found.event(ask.seq)
    shown = asking.permission_lines(event, Paint()) if isinstance(event, PermissionRequested) else []
    command = PermissionApproved(
        command_id=stores.fresh_command_id(),
        actor=stores.actor(),
        request_id=ask.ask_id,
        scope="session" if args.session_wide else "pattern" if args.pattern else "once",
        pattern=args.pattern,
        digest=ask.digest or None,
    )
    return command, shown, f"approved {ask.ask_id}: {visible(ask.tool)} may run"


def _deny(args: argparse.Namespace, found: stores.Folded) -> Made:
    ask = _asked(found, args.request, "permission")
    command = PermissionDenied(
        command_id=stores.fresh_command_id(),
        actor=stores.actor(),
        request_id=ask.ask_id,
        stop=args.stop,
        body=FeedbackBody(feedback=args.feedback) if args.feedback else None,
    )
    then = "and the run ends" if args.stop else "the model is told so"
    return command, [], f"denied {ask.ask_id}: {visible(ask.tool)} does not run, {then}"


def _answer(args: argparse.Namespace, found: stores.Folded) -> Made:
    words = list(args.words)
    open_ids = {ask.ask_id for ask in found.state.asks.values() if ask.kind == "question"}
    wanted = words.pop(0) if len(words) > 1 and words[0] in open_ids else None
    if len(words) == 1 and words[0] in open_ids and args.decline:
        wanted = words.pop(0)
    ask = _asked(found, wanted, "question")
    text = " ".join(words)
    if not text and not args.decline:
        raise UsageError(f"no answer to {ask.ask_id} was given: write it behind the session, or --decline")
    event = found.event(ask.seq)
    shown = asking.question_lines(event, Paint()) if isinstance(event, QuestionRequested) else []
    body, action = read_answer(event, text) if isinstance(event, QuestionRequested) else (AnswerBody(), None)
    command = AnswerReceived(
        command_id=stores.fresh_command_id(),
        actor=stores.actor(),
        question_id=ask.ask_id,
        outcome="declined" if args.decline else "answered",
        action=None if args.decline else action,
        tokens=estimate_text(text) + 8,
        body=body,
    )
    return command, shown, f"{'declined' if args.decline else 'answered'} {ask.ask_id}"


def read_answer(event: QuestionRequested, text: str) -> tuple[AnswerBody, str | None]:
    """What a person typed, as an answer: option numbers, a plan's action, a form's JSON, or free text."""
    body = event.body
    if body is None or not text:
        return AnswerBody(), None
    if body.plan is not None:
        if text in body.plan.actions or text in ("approve", "reject"):
            return AnswerBody(), text
        return AnswerBody(feedback=text), body.plan.recommended or "approve"
    if body.form is not None:
        return AnswerBody(content=_form(text)), None
    picked = picks(text, [option.label for option in body.questions[0].options] if body.questions else [])
    if picked:
        return AnswerBody(answers=(Answer(index=0, selected=picked),)), None
    return AnswerBody(answers=(Answer(index=0, text=text),)), None


def _form(text: str) -> dict[str, object]:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise UsageError(f"a form is answered with a JSON object: {error}") from None


def picks(text: str, labels: list[str], *, several: bool = True) -> tuple[str, ...]:
    """The options that some numbers, or one label, name; none where the text is something else."""
    if text in labels:
        return (text,)
    numbers = [part.strip() for part in text.split(",")]
    if not labels or not all(part.isdecimal() for part in numbers):
        return ()
    if any(not 1 <= int(part) <= len(labels) for part in numbers):
        raise UsageError(f"{text!r}: the options are numbered 1 to {len(labels)}")
    if len(numbers) > 1 and not several:
        raise UsageError(f"{text!r}: pick one option")
    return tuple(labels[int(part) - 1] for part in dict.fromkeys(numbers))


def _settle(args: argparse.Namespace, found: stores.Folded) -> Made:
    unknown = {call.call_id: call for call in found.state.calls.values() if call.status == "unknown"}
    if args.call not in unknown:
        open_now = ", ".join(unknown) or "none"
        raise UsageError(f"no call {args.call!r} with an unknown outcome: open are {open_now}")
    command = ToolSettled(
        command_id=stores.fresh_command_id(),
        actor=stores.actor(),
        call_id=args.call,
        outcome=args.outcome,
        tokens=estimate_text(args.text) if args.text else 0,
        body=ResultBody(content=(Text(text=args.text),)) if args.text else None,
    )
    return command, [], f"settled {args.call}: {args.outcome.replace('_', ' ')}"


COMMANDS = {"approve": _approve, "deny": _deny, "answer": _answer, "settle": _settle}
