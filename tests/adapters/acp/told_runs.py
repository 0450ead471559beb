"""The committed logs of real runs, as an editor is told them."""

from __future__ import annotations

import functools

from tests.adapters.committed_runs import names, told
from windlass.adapters.acp.view.fold import Said, TurnEnded, Update
from windlass.adapters.acp.view.update_view import AcpView
from windlass.events.live import Live


@functools.cache
def said_of(name: str, *, live: bool = True) -> tuple[Said, ...]:
    """What follows from a run, also for whoever heard nothing early."""
    view = AcpView(name)
    heard = (one for one in told(name) if live or not isinstance(one, Live))
    return tuple(said for one in heard for said in view.feed(one))


def updates_of(name: str, *, live: bool = True) -> list[Update]:
    return [said for said in said_of(name, live=live) if isinstance(said, Update)]


@functools.cache
def proofs() -> dict[str, set[str]]:
    """What the runs were told in, each with the runs that were: updates, kinds of calls, statuses, stop reasons."""
    found: dict[str, set[str]] = {}
    for name in names():
        for said in said_of(name):
            if isinstance(said, Update):
                for word in words_of(said):
                    found.setdefault(word, set()).add(name)
            elif isinstance(said, TurnEnded) and said.stop is not None:
                found.setdefault(f"stop `{said.stop}`", set()).add(name)
    return found


def words_of(update: Update) -> list[str]:
    """The words of the protocol that an update uses."""
    body = update.body
    words = [f"update `{body['sessionUpdate']}`"]
    words += [f"status `{body['status']}`"] if "status" in body else []
    words += [f"kind `{body['kind']}`"] if "kind" in body else []
    words += ["content `diff`"] if update.files else []
    content = body.get("content")
    words += ["content `content`"] if isinstance(content, list) and content else []
    return words
