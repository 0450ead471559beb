"""S24: the log alone answers why a call was allowed. For each call of a hundred sessions the explanation made from the log
is the verdict that was given, with the rule, the person and the policy; and no record of it can be changed unseen."""

from __future__ import annotations

import random
from typing import Any

import windlass
from windlass.events.base import name_of
from windlass.events.tools.calls import ToolAllowed, ToolDenied, ToolRequested
from windlass.events.tools.permissions import PermissionApproved, PermissionDenied, PermissionRequested
from windlass.runtime.operate.verification import verify_session
from windlass.testing.scripted import ScriptedModel, call

SESSIONS = 100
CALLS = 6
PEOPLE = ("ada", "bo", "cy")


@windlass.tool(contract="pure", traits=("read",), kind="read")
def look(n: int) -> str:
    "Looks."
    return str(n)


@windlass.tool(traits=("write",), kind="write")
def change(n: int) -> str:
    "Changes."
    return str(n)


@windlass.tool(traits=("egress",), kind="url")
def send(n: int) -> str:
    "Sends."
    return str(n)


TOOLS = {tool.name: tool for tool in (look, change, send)}


def policy_of(dice: random.Random) -> windlass.Policy:
    made = {"allow": windlass.allow, "ask": windlass.ask, "deny": windlass.deny}
    rules = [made[dice.choice(list(made))](dice.choice([*TOOLS, "*"])) for _ in range(dice.randrange(4))]
    return windlass.Policy(rules=tuple(rules), default=dice.choice(["allow", "ask", "deny"]))


async def session_of(seed: int) -> tuple[list[Any], windlass.Policy, bool]:
    """The records of one session, its policy, and whether its log is sound."""
    dice = random.Random(seed)
    policy = policy_of(dice)
    wanted = [call(dice.choice(list(TOOLS)), n=n) for n in range(CALLS)]

    def approver(request: Any) -> Any:
        who = dice.choice(PEOPLE)
        return windlass.Approve(by=who, auth="token") if dice.random() < 0.5 else windlass.Deny(by=who, auth="token")

    agent = windlass.Agent("a", model=ScriptedModel([wanted, "done"]), tools=list(TOOLS.values()), policy=policy)
    async with windlass.open(agents=[agent], approver=approver) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        records = [record async for record in session.records()]
        sound = (await verify_session(runtime.store, session.key)).sound
    return records, policy, sound


def verdicts(records: list[Any]) -> dict[str, list[Any]]:
    """What the log says of each call, in order."""
    found: dict[str, list[Any]] = {}
    for record in records:
        event = record.event
        if isinstance(event, ToolRequested | ToolAllowed | ToolDenied | PermissionRequested):
            found.setdefault(event.call_id, []).append(event)
    return found


async def test_every_verdict_is_reconstructed_from_the_log() -> None:
    kinds: dict[str, int] = {}
    for seed in range(SESSIONS):
        records, policy, sound = await session_of(seed)
        assert sound
        answers = {
            record.event.request_id: record.event
            for record in records
            if isinstance(record.event, PermissionApproved | PermissionDenied)
        }
        for number, (_, events) in enumerate(sorted(verdicts(records).items(), key=lambda pair: pair[0])):
            requested, first = events[0], events[1]
            kinds[name_of(first)] = kinds.get(name_of(first), 0) + 1
            told = windlass.explain(policy, TOOLS[requested.tool], {"n": number}).splitlines()[0]
            word = {"tool.allowed": ": allow", "tool.denied": ": den", "permission.requested": ": ask"}[name_of(first)]
            assert word in told, (seed, told, first)
            if isinstance(first, PermissionRequested):
                answer = answers[first.request_id]
                assert (answer.actor in PEOPLE, answer.auth) == (True, "token")
                final = events[2] if len(events) > 2 else None
                assert isinstance(final, ToolAllowed) == isinstance(answer, PermissionApproved), (seed, events)
            else:
                assert first.rule or first.by == "default", (seed, first)
    assert min(kinds.get(name, 0) for name in ("tool.allowed", "tool.denied", "permission.requested")) > 20, kinds
