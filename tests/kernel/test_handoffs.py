"""What may be handed over: a session that is idle, or asks people; nothing of it may go on behind it."""

from __future__ import annotations

import pytest

from tests.kernel.session import ASK_PAY, HELPER, TOOLS, Session, call
from windlass.events.errors import Refused
from windlass.events.sessions import HandoffReceived
from windlass.events.tools.calls import ToolSuspended
from windlass.events.tools.jobs import JobStarted
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import ChildMoved, ChildOpened, Used
from windlass.events.turns import Prepared
from windlass.events.values.ids import child_moved_id, child_settled_id, job_id
from windlass.events.values.setup import Spawning
from windlass.kernel.phases import Asked, Idle, Left

MODES = ("foreground", "background", "detached")


def handed(session: Session) -> None:
    session.take(HandoffReceived(command_id="h", to="https://there.invalid", session="there"))


def parent(mode: str) -> Session:
    """A session with a child of some mode, at work."""
    session = Session(tools=(*TOOLS, HELPER))
    session.prompt()
    spawning = Spawning(agent="helper", mode=mode)  # type: ignore[arg-type]
    session.reply("", call("helper", {"n": 1}, prepared=Prepared(digest="spawn", spawning=spawning)))
    (child,) = session.state.children.open.values()
    if mode != "foreground":
        session.take(ChildOpened(child_id=child.child_id, call_id=child.call_id))
        session.reply("it is under way")
    return session


def moved(session: Session, status: str, **more: object) -> None:
    """The child of a session says how it gets on."""
    (child,) = session.state.children.open.values()
    told = ChildMoved(
        command_id=child_moved_id(child.child_id, 9),
        child_id=child.child_id,
        call_id=child.call_id,
        child_seq=9,
        status=status,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )
    session.take(told)


def client() -> Session:
    session = Session()
    session.prompt()
    session.reply("", call("ui"))
    session.nobody()
    return session


def suspended() -> Session:
    session = Session()
    session.prompt()
    session.reply("", call("pay", {"n": 1}))
    session.take(ToolSuspended(call_id=session.called()))
    return session


def unknown() -> Session:
    session = Session()
    session.prompt()
    session.reply("", call("risky", {"n": 1}))
    session.crash()
    return session


def jobbing(*, detached: bool = False) -> Session:
    session = Session()
    session.prompt()
    session.reply("", call("pay", {"n": 1}))
    session.take(JobStarted(call_id=session.called(), job_id=job_id(session.called()), detached=detached))
    session.reply("it runs")
    return session


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("waits", ["asked", "asked for nothing named", "sleeping", "working"])
def test_a_session_with_a_child_is_not_handed_over_whatever_the_child_waits_for(mode, waits):
    session = parent(mode)
    if waits != "working":
        named = {"waiting_for": ("p8",)} if waits == "asked" else {}
        moved(session, waits.partition(" ")[0], **named)
    if mode == "foreground" and waits == "working":
        with pytest.raises(Refused, match="does not fit a session"):
            handed(session)
        return
    assert type(session.state.phase) in (Idle, Asked)
    with pytest.raises(Refused, match=r"child session s1~c\d+\.0 \(helper\) is not over: answer what it asks") as found:
        handed(session)
    assert found.value.code == "busy"
    session.child_ends()
    while session.state.active:
        session.reply("done")
    handed(session)
    assert isinstance(session.state.phase, Left)


def test_one_whose_child_has_left_others_at_work_is_not_handed_over_until_they_have_settled():
    session = parent("background")
    session.child_ends(used=Used(turns=1), held=Used(turns=2))
    while session.state.active:
        session.reply("done")
    ((name, before),) = session.state.children.unsettled.items()
    child = before.child.child_id
    with pytest.raises(Refused, match=f"below child session {child} some are not over"):
        handed(session)
    settled = ChildSettled(command_id=child_settled_id(child), child_id=child, call_id=name, used=Used(turns=2))
    session.take(settled)
    handed(session)


@pytest.mark.parametrize("detached", [False, True])
def test_one_with_a_job_is_not_handed_over(detached):
    session = jobbing(detached=detached)
    with pytest.raises(Refused, match=r"job .* runs here: wait for its end, or end it first"):
        handed(session)


@pytest.mark.parametrize(("made", "told"), [(client, "client"), (suspended, "client"), (unknown, "settle")])
def test_a_call_that_others_may_be_at_work_on_is_brought_to_an_end_first(made, told):
    session = made()
    assert isinstance(session.state.phase, Asked)
    with pytest.raises(Refused, match=rf"{told} c\d+\.0 is not over"):
        handed(session)


def test_what_people_are_asked_goes_along():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("pay", {"n": 1}))
    session.nobody()
    assert isinstance(session.state.phase, Asked)
    handed(session)
    assert isinstance(session.state.phase, Left)
