"""Sessions of other trees are told something by grant alone: the receiver's, on its record, listed and taken back there."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from tests.runtime.support import events_of, only, sound, started
from windlass.events.changes import ChangeGrants
from windlass.events.errors import Refused
from windlass.events.signals import SignalReceived
from windlass.events.tools.permissions import GrantsChanged
from windlass.events.values.policy import Grant
from windlass.testing.scripted import ScriptedModel, by_history, call


def agent(name: str, *turns: Any, **more: Any) -> windlass.Agent:
    return windlass.Agent(name, ScriptedModel(by_history(list(turns))), tools=["tell"], **more)


CLERK = agent("clerk", "noted", "noted too", "and that")
AUDITOR = agent("auditor", call("tell", to="march", text="Line 7 is wrong.", urgency="high"), "said", "later")


async def test_a_session_of_another_tree_is_told_by_grant_and_knows_who_said_it():
    async with windlass.open(agents=[CLERK, AUDITOR]) as runtime:
        march, audit = await runtime.session(CLERK, "march"), await runtime.session(AUDITOR, "audit")
        grant = await march.hear(audit, actor="ada")
        await audit.prompt("Say it.")
        await audit.result()
        await started(march, SignalReceived)
        (said,) = only(await events_of(march), SignalReceived)
        assert said.body is not None
        assert (said.body.text, said.source, said.grant) == ("Line 7 is wrong.", "audit", grant)
        assert [(one.grant_id, one.session, one.by) for one in await march.grants()] == [(grant, "audit", "ada")]
        await sound(march)


async def test_nobody_outside_is_told_anything_without_a_grant_and_a_stranger_looks_like_nobody():
    async with windlass.open(agents=[CLERK, AUDITOR]) as runtime:
        march, audit = await runtime.session(CLERK, "march"), await runtime.session(AUDITOR, "audit")
        await march.hear("somebody-else")
        told = []
        for name in ("march", "april"):
            with pytest.raises(Refused) as refused:
                await audit.tell(name, "Hello.")
            told.append(str(refused.value).replace(name, "X"))
        assert told[0] == told[1], "whether there is such a session is not told"
        assert "lets this one tell it anything" in told[0]
        assert only(await events_of(march), SignalReceived) == []


async def test_a_grant_goes_one_way_and_to_no_session_below():
    child = agent("child", call("tell", to="march", text="From below."), "done", description="helps")
    boss = windlass.Agent(
        "boss", ScriptedModel(by_history([call("spawn", agent="child", task="go"), "ok"])), agents=[child]
    )
    async with windlass.open(agents=[CLERK, boss]) as runtime:
        march, above = await runtime.session(CLERK, "march"), await runtime.session(boss, "above")
        await march.hear(above)
        await above.prompt("go")
        await above.result()
        assert only(await events_of(march), SignalReceived) == []
        with pytest.raises(Refused, match="lets this one tell it anything"):
            await march.tell("above", "Back.")


async def test_a_grant_that_was_taken_back_is_over_also_for_what_was_sent_before(tmp_path):
    async with windlass.open(tmp_path / "work.db", agents=[CLERK, AUDITOR]) as runtime:
        march, audit = await runtime.session(CLERK, "march"), await runtime.session(AUDITOR, "audit")
        grant = await march.hear(audit)
        assert await audit.tell("march", "First.") == "told march"
        await started(march, SignalReceived)
        (first,) = only(await events_of(march), SignalReceived)
        await march.revoke(grant)
        assert await march.grants() == ()
        with pytest.raises(Refused, match="lets this one tell it anything"):
            await audit.tell("march", "Second.")
        late = SignalReceived(
            **{**{name: getattr(first, name) for name in first.__struct_fields__}, "command_id": "late"}
        )
        driven = runtime.host.trees.slots.driven_at(march.key)
        assert driven is not None
        with pytest.raises(Refused, match="its grant was taken back"):
            await driven.owner.take(late)
        changed = only(await events_of(march), GrantsChanged)
        assert [(len(one.added), one.revoked) for one in changed] == [(1, ()), (0, (grant,))]


async def test_a_grant_ends_at_its_time_and_is_not_carried_into_forks():
    async with windlass.open(agents=[CLERK, AUDITOR]) as runtime:
        march, audit = await runtime.session(CLERK, "march"), await runtime.session(AUDITOR, "audit")
        await march.hear(audit, expires_ms=1)
        with pytest.raises(Refused, match="lets this one tell it anything"):
            await audit.tell("march", "Too late.")
        await march.hear(audit)
        await march.prompt("Note it.")
        await march.result()
        fork = await march.fork("april")
        assert await fork.grants() == ()


async def test_labels_of_the_sender_come_with_the_message_and_a_grant_approves_no_call():
    @windlass.tool(contract="pure", labels=("untrusted:web",))
    def look() -> str:
        "Looks."
        return "seen"

    asks = windlass.Policy(rules=[windlass.ask("tell")])
    sender = windlass.Agent("sender", ScriptedModel(by_history([call("look"), "seen"])), tools=[look, "tell"])
    asked = agent("asked", call("tell", to="root", text="x"), "done", policy=asks)
    async with windlass.open(agents=[asked, sender]) as runtime:
        march, other = await runtime.session(asked, "march"), await runtime.session(sender, "other")
        await march.hear(other)
        await other.prompt("Look.")
        await other.result()
        await other.tell("march", "I saw it.")
        await started(march, SignalReceived)
        (said,) = only(await events_of(march), SignalReceived)
        assert said.labels == ("untrusted:web",)
        await march.prompt("Tell somebody.")
        assert (await march.result()).status == "asked", "its own calls are asked about as before"


@pytest.mark.parametrize(
    ("grant", "why"),
    [
        (Grant(grant_id="g", tool="pay", session="audit"), "can be granted 'tell' alone"),
        (Grant(grant_id="g", tool="tell", pattern="*", session="audit"), "without a pattern"),
        (Grant(grant_id="g", tool="tell", session="march"), "is no session that could tell this one"),
    ],
)
async def test_a_grant_that_means_nothing_is_refused(grant, why):
    async with windlass.open(agents=[CLERK]) as runtime:
        march = await runtime.session(CLERK, "march")
        with pytest.raises(Refused, match=why):
            await march.change(ChangeGrants(add=(grant,)))


async def test_a_call_that_is_done_again_sends_nothing_twice_though_its_grant_was_taken_back():
    async with windlass.open(agents=[CLERK, AUDITOR]) as runtime:
        march, audit = await runtime.session(CLERK, "march"), await runtime.session(AUDITOR, "audit")
        grant = await march.hear(audit)
        await audit.tell("march", "Once.", command_id="said")
        await started(march, SignalReceived)
        await march.revoke(grant)
        taken = await runtime.host.log.taken_at(audit.key, "said")
        driven = runtime.host.trees.slots.driven_at(audit.key)
        assert driven is not None
        again = await runtime.host.trees.tools(driven.owner).messages.perform(
            f"c{taken}.0", {"to": "march", "text": "x"}
        )
        assert again.ok, "it is the same call, and was done"
        assert len(only(await events_of(march), SignalReceived)) == 1
