"""`windlass answer`: answer a question of an agent, or decline to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.runtime.operate.open_requests import Asker
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass answer march 'yes, both'  free text to the only question that is open
  windlass answer march q12 2        option 2
  windlass answer march q12 1,3      options 1 and 3
  windlass answer march --decline    no answer
"""
OVERHEAD_TOKENS = 8
"""What an answer takes up in the history besides its text."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("words", metavar="[QUESTION] ANSWER", nargs="*", help="option numbers, or free text")
    parser.add_argument("--decline", action="store_true", help="decline to answer")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, answer)


async def answer(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Shows the question, then sends the answer to it."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.answer_text import read_answer
    from windlass.cli.open_requests import wanted_request
    from windlass.cli.screen.person_requests import question_lines
    from windlass.cli.terminal.text import Paint, put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.events.questions import AnswerBody, AnswerReceived, QuestionRequested
    from windlass.models.tokens import estimate_text
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.open_requests import askers
    from windlass.runtime.trees.tree_rows import key_at

    asking = await askers(store, await read_point(store, key))
    wanted, text = parted(asking, list(args.words), decline=args.decline)
    request = wanted_request(asking, wanted, "question")
    if not text and not args.decline:
        raise UsageError(f"no answer to {request.name} was given: write it after the session, or use --decline")
    event = request.shown
    body, action = read_answer(event, text) if isinstance(event, QuestionRequested) else (AnswerBody(), None)
    for line in question_lines(event, Paint()) if isinstance(event, QuestionRequested) else ():
        put(line)
    command = AnswerReceived(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        question_id=request.request_id,
        outcome="declined" if args.decline else "answered",
        action=None if args.decline else action,
        tokens=estimate_text(text) + OVERHEAD_TOKENS,
        body=body,
    )
    what = f"{'declined' if args.decline else 'answered'} {spelt(request.name)}"
    return await command_delivery.send(store, key_at(key, request.scope), command, what, args)


def parted(asking: Sequence[Asker], words: list[str], *, decline: bool) -> tuple[str | None, str]:
    """The question that the first word names, if it names an open one and does not stand alone for an answer; and the
    text of the answer."""
    from windlass.runtime.operate.open_requests import asked_in_tree

    open_ids = {request.name for request in asked_in_tree(asking, "question")}
    names_one = bool(words) and words[0] in open_ids and (len(words) > 1 or decline)
    wanted = words.pop(0) if names_one else None
    return wanted, " ".join(words)
