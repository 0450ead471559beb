"""The trees in docs/concepts.md are the logs that the kernel writes."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.kernel.session import ASK_PAY, Session, call, names
from windlass.events.base import name_of
from windlass.events.stored.registry import EVENTS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "concepts.md"
DRAWN = re.compile(r"<!-- log: (\w+) -->\n```text\n(.*?)```", re.DOTALL)
LINE = re.compile(r"^(?P<branch>[├└]─ )?(?P<name>[a-z_]+\.[a-z_]+)(?:\s{2,}.*)?$")
HOUR = 3_600_000


def drawn(text: str) -> list[list[str]]:
    """The appends of a tree: a fact at the margin, its decisions on branches, the last one marked as such."""
    appends: list[list[str]] = []
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        found = LINE.match(line)
        assert found, f"not a line of a tree: {line!r}"
        if found["branch"] is None:
            appends.append([found["name"]])
        else:
            last = not following.startswith(("├", "└"))
            assert found["branch"] == ("└─ " if last else "├─ "), f"wrong branch: {line!r}"
            appends[-1].append(found["name"])
    return appends


def plain() -> Session:
    session = Session()
    session.prompt()
    session.reply("hello")
    return session


def tool() -> Session:
    session = Session()
    session.prompt()
    session.reply("", call("add"))
    session.finish()
    session.reply("45")
    return session


def approval() -> Session:
    session = Session(policy=ASK_PAY)
    session.prompt()
    request = session.reply("", call("pay"))[-1].request_id
    session.nobody()
    session.at_ms += 72 * HOUR
    session.approve(request)
    session.finish()
    session.reply("paid")
    return session


def failure() -> Session:
    session = Session()
    session.prompt()
    session.model_fails("server_error", status=503)
    session.fire()
    session.model_fails("rate_limited", retry_after_ms=HOUR)
    session.fire()
    session.model_fails("invalid_request")
    return session


def crash() -> Session:
    session = Session()
    session.prompt()
    session.reply("", call("add"), call("pay"))
    session.crash()
    session.finish()
    session.crash()
    session.reply("done")
    return session


TREES = dict(DRAWN.findall(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("story", [plain, tool, approval, failure, crash], ids=lambda story: story.__name__)
def test_a_drawn_log_is_the_log_that_is_written(story):
    written = [names(append) for append in story().appends]
    assert written[0] == ["session.started"]
    assert drawn(TREES[story.__name__]) == written[1:]


def test_every_drawn_log_has_its_story():
    assert sorted(TREES) == ["approval", "crash", "failure", "plain", "tool"]


def test_every_event_that_the_page_names_exists():
    known = {name_of(cls) for cls in EVENTS}
    named = set(re.findall(r"`([a-z_]+\.[a-z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert named - known == set()
