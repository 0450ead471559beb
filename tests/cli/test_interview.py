"""What a person at a terminal is offered when something is asked of them."""

from __future__ import annotations

from windlass.cli.terminal.interview import Interviewer
from windlass.runtime.api.approvals import Approve, PermissionAsk


class Typist:
    """A person who has made up their mind."""

    page_rows = None
    explains = False

    def __init__(self, *said: str) -> None:
        self.said = list(said)
        self.shown: list[str] = []

    def show(self, line):
        self.shown.append(line)

    async def ready(self):
        pass

    async def ask(self, prompt, begun=""):
        return self.said.pop(0) if self.said else None

    async def pick(self, prompt, question):
        return None

    async def pause(self, said):
        return "all"


async def answer(person, *, offered):
    asked = PermissionAsk(
        session="s", request_id="p1", call_id="c1", tool="pay", digest="d", detail=None, session_offered=offered
    )
    interviewer = Interviewer(person)
    interviewer.session = "s"
    return await interviewer(asked)


async def test_the_whole_session_is_offered_and_taken_if_it_may_be():
    person = Typist("s")
    said = await answer(person, offered=True)
    assert isinstance(said, Approve)
    assert said.scope == "session"
    assert "[s]ession" in " ".join(person.shown)


async def test_the_whole_session_is_neither_offered_nor_taken_if_it_may_not_be():
    person = Typist("s", "y")
    said = await answer(person, offered=False)
    assert isinstance(said, Approve)
    assert said.scope == "once"
    shown = " ".join(person.shown)
    assert "[s]ession" not in shown
    assert "this can only be approved once" in shown
