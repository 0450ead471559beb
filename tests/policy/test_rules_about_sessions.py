"""Rules that hold in some sessions alone: by role, at the root, by trust. Judged by what is on record of the session."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import windlass
from tests.kernel.session import ASK_PAY, TOOLS, Session, call
from windlass.cli.main import main
from windlass.events.changes import PolicyChanged
from windlass.events.sessions import SessionImported, SessionStarted
from windlass.events.tools.calls import ToolAllowed, ToolDenied, ToolReconsidered
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import Prepared
from windlass.events.values.policy import Policy, Rule
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools import policy_rules, rule_sessions, verdicts
from windlass.kernel.state import State
from windlass.policies import ALLOW_ALL
from windlass.runtime.bind.policy_conditions import judged
from windlass.runtime.bind.policy_files import BadPolicyFile, policy_from
from windlass.testing import ScriptedModel
from windlass.testing import call as calls
from windlass.tools.description import Description

SPEC = ToolSpec(name="do", traits=("read",), contract="pure")
ROLES = ("explore", "plan", "implement", "verify", "orchestrate", "custom")


def state_of(*, role=None, depth=0, trusted=None, quarantined=False, policy=None) -> State:
    state = State()
    state.gate.policy = msgspec.structs.replace(policy or Policy(), role=role, trusted=trusted)
    state.depth = depth
    state.labels.quarantined = quarantined
    return state


def verdict(rule: Rule, *, default: Any = "allow", **session: Any) -> str:
    """What a policy of one rule says of a call in such a session."""
    state = state_of(policy=Policy(rules=(rule,), default=default), **session)
    matched, unjudged = judged(state, SPEC, {}, Description(exact=True))
    prepared = Prepared(digest="d", matched=matched, unjudged=unjudged, exact=True)
    return verdicts.judge(state, SPEC, prepared).action


@pytest.mark.parametrize("other", ROLES)
@pytest.mark.parametrize("role", ROLES)
def test_a_rule_about_a_role_holds_in_sessions_of_that_role_alone(role, other):
    for depth in (0, 2):
        said = verdict(windlass.deny(roles=[role]), role=other, depth=depth)
        assert said == ("deny" if role == other else "allow")
        assert verdict(windlass.deny(when=f"session.role == '{role}'"), role=other, depth=depth) == said


@pytest.mark.parametrize(
    ("rule", "session", "says"),
    [
        # the root is whatever no other session started, whichever role its agent has
        (windlass.deny(roles=["root"]), {"role": "custom"}, "deny"),
        (windlass.deny(roles=["root"]), {"role": "explore"}, "deny"),
        (windlass.deny(roles=["root"]), {"role": "explore", "depth": 1}, "allow"),
        (windlass.deny(roles=["root", "verify"]), {"role": "verify", "depth": 1}, "deny"),
        (windlass.deny(when="session.root"), {"role": "custom"}, "deny"),
        (windlass.deny(when="session.root"), {"role": "custom", "depth": 1}, "allow"),
        # trust is of the folder, or the quarantine of the session
        (windlass.ask(trust=["trusted"]), {"trusted": True}, "ask"),
        (windlass.ask(trust=["trusted"]), {"trusted": False}, "allow"),
        (windlass.ask(trust=["untrusted"]), {"trusted": False}, "ask"),
        (windlass.ask(trust=["untrusted"]), {"trusted": True}, "allow"),
        (windlass.ask(trust=["quarantined"]), {"trusted": True}, "allow"),
        (windlass.ask(trust=["quarantined"]), {"trusted": True, "quarantined": True}, "ask"),
        (windlass.ask(trust=["quarantined"]), {"quarantined": True}, "ask"),
        (windlass.ask(trust=["untrusted", "quarantined"]), {"trusted": True, "quarantined": True}, "ask"),
        (windlass.ask(when="session.quarantined"), {"quarantined": True}, "ask"),
        (windlass.ask(when="!session.trusted"), {"trusted": False}, "ask"),
        # both must hold, with everything else that the rule says
        (windlass.deny(roles=["plan"], trust=["untrusted"]), {"role": "plan", "trusted": True}, "allow"),
        (windlass.deny(roles=["plan"], trust=["untrusted"]), {"role": "plan", "trusted": False}, "deny"),
        (windlass.deny(roles=["plan"], when="args.missing == 1"), {"role": "verify"}, "allow"),
        (windlass.deny(roles=["plan"], when="args.missing == 1"), {"role": "plan"}, "ask"),
        (windlass.deny(roles=["plan"], when="1 == 1"), {"role": "plan"}, "deny"),
        (windlass.deny(roles=["plan"], traits=["write"]), {"role": "plan"}, "allow"),
        # what an older log does not say is asked about, and never allowed by
        (windlass.deny(roles=["plan"]), {}, "ask"),
        (windlass.deny(roles=["plan"], when="1 == 1"), {}, "ask"),
        (windlass.deny(roles=["plan"], when="1 == 2"), {}, "allow"),
        (windlass.deny(trust=["untrusted"]), {}, "ask"),
        (windlass.deny(when="session.role == 'plan'"), {}, "ask"),
        (windlass.deny(when="!session.trusted"), {}, "ask"),
        (windlass.deny(roles=["root"]), {}, "deny"),
        (windlass.deny(roles=["root"]), {"depth": 1}, "allow"),
    ],
)
def test_what_a_rule_says_of_a_session(rule, session, says):
    assert verdict(rule, **session) == says


@pytest.mark.parametrize(
    ("rule", "session", "says"),
    [
        (windlass.allow(roles=["implement"]), {"role": "implement"}, "allow"),
        (windlass.allow(roles=["implement"]), {"role": "explore"}, "ask"),
        (windlass.allow(roles=["implement"]), {}, "ask"),
        (windlass.allow(trust=["trusted"]), {"trusted": True}, "allow"),
        (windlass.allow(trust=["trusted"]), {"trusted": False}, "ask"),
        (windlass.allow(trust=["trusted"]), {}, "ask"),
    ],
)
def test_a_permission_holds_only_where_it_is_known_to(rule, session, says):
    assert verdict(rule, default="ask", **session) == says


def test_a_path_that_such_a_rule_denies_is_hidden_from_commands_where_it_holds():
    policy = Policy(rules=(windlass.deny(paths=["keys/"], roles=["explore"], trust=["untrusted"]),))
    for role, trusted, hidden in (("explore", False, True), ("explore", True, False), ("plan", False, False),
                                  (None, None, True)):  # fmt: skip
        here = rule_sessions.rules_here(state_of(role=role, trusted=trusted, policy=policy))
        assert policy_rules.unseen_by(here, SPEC) == (("keys/",) if hidden else ())


def test_a_rule_about_sessions_is_told_in_words():
    rules = [windlass.deny("write", roles=["explore", "root"]), windlass.ask(trust=["untrusted", "quarantined"])]
    assert windlass.explain(windlass.Policy(rules)).splitlines()[:2] == [
        "deny write in sessions of explore, root",
        "ask * where the folder is not trusted or the session is quarantined",
    ]


def test_files_take_them_and_say_what_is_wrong_with_its_line():
    toml = '[[rules]]\naction = "deny"\nroles = ["explore", "root"]\ntrust = "untrusted"\n'
    yaml = "rules:\n  - action: deny\n    roles: [explore, root]\n    trust: untrusted\n"
    (rule,) = policy_from(toml, "p.toml").rules
    assert (rule.roles, rule.trust) == (("explore", "root"), ("untrusted",))
    assert policy_from(yaml, "p.yaml").rules == (rule,)
    for name, text in (("p.toml", toml), ("p.yaml", yaml)):
        with pytest.raises(BadPolicyFile) as told:
            policy_from(text.replace("explore", "explorer").replace("untrusted", "bad"), name)
        assert str(told.value).splitlines() == [
            f"{name}:3: roles: 'explorer' is none of explore, plan, implement, verify, orchestrate, custom, root",
            f"{name}:4: trust: 'bad' is none of trusted, untrusted, quarantined",
        ]
    for key in ("role", "trusted"):  # these are no words of a policy's author
        with pytest.raises(BadPolicyFile, match=f"unknown key '{key}'"):
            policy_from(f'{key} = "implement"\n', "p.toml")


def test_the_command_line_explains_for_a_role_and_for_a_trusted_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(
        'default = "ask"\n[[rules]]\naction = "deny"\ntool = "write"\nroles = ["explore"]\n'
        '[[rules]]\naction = "allow"\ntool = "write"\ntrust = ["trusted"]\n'
    )
    given = ("policy", "explain", "p.toml", "write", '{"path": "a", "content": ""}')

    def says(*more: str) -> str:
        assert main([*given, *more]) == 0
        said: str = capsys.readouterr().out
        return said.splitlines()[0].partition("}: ")[2].split(" ")[0]

    assert [says(), says("--trusted"), says("--trusted", "--role", "explore")] == ["asked", "allowed", "denied"]
    assert main(["policy", "check", "p.toml", "--role", "plan"]) == 2
    assert "--role and --trusted are of 'policy explain'" in capsys.readouterr().err


def test_explain_takes_role_and_trust_from_whoever_asks():
    rules = windlass.Policy([windlass.deny("do", roles=["explore"]), windlass.deny("do", trust=["trusted"])])
    looker = windlass.Agent("looker", role="explore", tools=[do], policy=rules)
    doer = windlass.Agent("doer", tools=[do], policy=rules)
    assert "denied (deny do)" in windlass.explain(looker, "do")
    assert "allowed" in windlass.explain(doer, "do").splitlines()[0]
    assert "denied" in windlass.explain(doer, "do", role="explore").splitlines()[0]
    assert "denied" in windlass.explain(doer, "do", trusted=True).splitlines()[0]


# --- in the kernel: what is on record, and what follows if it changes -----------------------------------------------


def asked_about_pay(policy: Policy) -> Session:
    """A session that waits for a word on `pay`, with nobody there."""
    session = Session(tools=TOOLS, policy=policy)
    session.prompt()
    session.reply("", call("pay"))
    session.nobody()
    return session


@pytest.mark.parametrize("name", ["role", "trusted"])
def test_a_call_that_waits_is_judged_again_if_whose_session_it_is_changed_and_a_rule_asks_for_that(name):
    rules = {"role": windlass.deny("pay", roles=["plan"]), "trusted": windlass.deny("pay", trust=["untrusted"])}
    values: dict[str, tuple[Any, Any]] = {"role": ("verify", "plan"), "trusted": (True, False)}
    before, now = values[name]
    ask = windlass.ask("pay")
    asked = asked_about_pay(Policy(rules=(ask, rules[name]), **{name: before}))
    terms = asked.state.setup.terms
    other = msgspec.structs.replace(terms, policy=msgspec.structs.replace(terms.policy, **{name: now}))
    asked.crash(terms=other)
    again = [type(event) for event in asked.events() if isinstance(event, ToolReconsidered | ToolDenied)]
    assert again[:1] == [ToolReconsidered]

    plain = asked_about_pay(Policy(rules=(ask,), **{name: before}))
    terms = plain.state.setup.terms
    plain.crash(terms=msgspec.structs.replace(terms, policy=msgspec.structs.replace(terms.policy, **{name: now})))
    assert not any(isinstance(event, ToolReconsidered) for event in plain.events())
    assert getattr(plain.state.gate.policy, name) == now


def test_digests_of_rules_that_say_nothing_of_sessions_are_what_they_were():
    spec = next(spec for spec in TOOLS if spec.name == "pay")
    said = msgspec.structs.replace(ASK_PAY, role="plan", trusted=True)
    assert policy_rules.rules_digest(said, spec) == policy_rules.rules_digest(ASK_PAY, spec)
    about = Policy(rules=(windlass.ask("pay", when="session.role == 'plan'"),))
    other = msgspec.structs.replace(about, role="plan")
    assert policy_rules.rules_digest(other, spec) != policy_rules.rules_digest(about, spec)


# --- live: children, restarts, trust --------------------------------------------------------------------------------


@windlass.tool(traits=("read",), contract="pure")
def do() -> str:
    "Do it."
    return "done"


def child(name: str, role: Any, policy: Policy = ALLOW_ALL, **more: Any) -> windlass.Agent:
    script: list[Any] = [calls("do"), "child is done"]
    return windlass.Agent(name, role=role, model=ScriptedModel(script), tools=[do], policy=policy, **more)


async def ruled_in(session: Any) -> list[str]:
    """What became of the calls of `do` in a session, by the names of the events."""
    said = []
    async for record in session.records():
        event = record.event
        if isinstance(event, ToolAllowed | ToolDenied | PermissionRequested):
            state_tool = getattr(event, "tool", "")
            said.append(f"{type(event).__name__}:{event.rule}" if state_tool != "spawn" else "")
    return [one for one in said if one]


@pytest.mark.parametrize(("role", "says"), [("explore", "ToolDenied:deny do"), ("verify", "ToolAllowed:default allow")])
async def test_a_parents_rule_about_a_role_binds_its_children_of_that_role_and_no_other_ones(tmp_path, role, says):
    below = child("below", role)
    above = windlass.Agent(
        "above",
        model=ScriptedModel([[calls("spawn", agent="below", task="go"), calls("do")], "done"]),
        tools=[do],
        agents=[below],
        policy=windlass.Policy([windlass.deny("do", roles=["explore"])], default="allow"),
    )
    async with windlass.open(str(tmp_path / "s.db"), agents=[above]) as rt:
        session = await rt.session(above, "s")
        await session.prompt("go")
        await session.result()
        (name,) = [row.session for row in await rt.sessions() if "~" in row.session]
        assert "ToolAllowed:default allow" in await ruled_in(session), "the root is of another role"
        found = await rt.get(name)
        assert await ruled_in(found) == [says]
        (started,) = [r.event async for r in found.records() if isinstance(r.event, SessionStarted)]
        assert (started.setup.policy.role, started.setup.policy.trusted) == (role, False)


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_child_is_trusted_as_its_parent_is(tmp_path, trusted):
    below = child("below", "verify")
    above = windlass.Agent(
        "above",
        model=ScriptedModel([calls("spawn", agent="below", task="go"), "done"]),
        agents=[below],
        policy=windlass.Policy([windlass.deny("do", trust=["untrusted"], missing_ok=True)], default="allow"),
    )
    async with windlass.open(str(tmp_path / "s.db"), agents=[above]) as rt:
        session = await rt.session(above, "s", workspace=tmp_path, trusted=trusted)
        await session.prompt("go")
        await session.result()
        (name,) = [row.session for row in await rt.sessions() if "~" in row.session]
        assert await ruled_in(await rt.get(name)) == ["ToolAllowed:default allow" if trusted else "ToolDenied:deny do"]


async def test_who_opens_a_session_later_says_how_far_its_folder_is_trusted_and_else_the_record_does(tmp_path):
    rules = windlass.Policy([windlass.deny("do", trust=["untrusted"])], default="allow")

    def agent() -> windlass.Agent:
        return windlass.Agent("a", model=ScriptedModel([calls("do"), "ok"]), tools=[do], policy=rules)

    async def once(**given: Any) -> str:
        made = agent()
        async with windlass.open(str(tmp_path / "s.db"), agents=[made]) as rt:
            session = await rt.session(made, "s", **given)
            await session.prompt("go")
            await session.result()
            return (await ruled_in(session))[-1]

    allowed, denied = "ToolAllowed:default allow", "ToolDenied:deny do"
    assert await once(workspace=tmp_path) == denied
    assert await once(workspace=tmp_path, trusted=True) == allowed
    assert await once() == allowed, "nobody named the folder: what is on record stands"
    assert await once(workspace=tmp_path) == denied
    assert await once() == denied


@pytest.mark.parametrize("lie", [{"role": "implement", "trusted": True}, {"role": "explore", "trusted": True}])
async def test_nobody_says_of_itself_whose_session_it_is_or_how_far_it_is_trusted(tmp_path, lie):
    rules = [windlass.deny("do", roles=["explore"]), windlass.deny("do", trust=["untrusted"])]
    given = windlass.Policy(rules, default="allow", **lie)
    agent = child("a", "explore", given)
    async with windlass.open(str(tmp_path / "s.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=tmp_path, options=windlass.SessionOptions(policy=given))
        await session.prompt("go")
        await session.result()
        assert await ruled_in(session) == ["ToolDenied:deny do"]
        state = await session.state()
        assert (state.gate.policy.role, state.gate.policy.trusted) == ("explore", False)


def test_a_fork_of_a_child_is_no_root_and_an_import_brings_no_trust():
    state = state_of(role="plan", depth=1)
    assert not rule_sessions.is_root(state)
    session = Session(tools=TOOLS, policy=Policy(trusted=True, role="plan"))
    session.take(SessionImported(session_id="copy", epoch=9))
    assert (session.state.gate.policy.role, session.state.gate.policy.trusted) == (None, None)
    assert any(isinstance(event, PolicyChanged) for event in session.events())
