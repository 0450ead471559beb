"""Rules that match on more than the name: paths, hosts, commands, traits, sources, labels, modes, rates and quotas."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import windlass
from tests.kernel.session import Session, call
from windlass.events.errors import UsageError
from windlass.events.tools.calls import ToolAllowed, ToolDenied
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import Prepared
from windlass.events.values.policy import Policy, Rate, Rule
from windlass.events.values.setup import Workspace
from windlass.events.values.tools import ToolSpec
from windlass.kernel.parts.tools import labels, rule_words, verdicts
from windlass.kernel.state import State
from windlass.runtime.bind.policy_checks import rate_of
from windlass.runtime.bind.policy_conditions import judged
from windlass.tools.description import Description

FOLDER = "/srv/project"
SPEC = ToolSpec(name="do", traits=("write",))


def verdict(rule, about=None, spec=SPEC, folder=FOLDER, mode="interactive", default="standard", args=None):
    """What a policy of one rule says of a call: the action."""
    state = State()
    state.gate.policy = Policy(rules=(rule,), default=default)
    state.setup.mode = mode
    state.workspace.folder = Workspace(cwd=folder) if folder is not None else None
    about = about or Description()
    matched, unjudged = judged(state, spec, args or {}, about)
    prepared = Prepared(digest="d", matched=matched, unjudged=unjudged, exact=about.exact, traits=about.traits)
    return verdicts.judge(state, spec, prepared).action


def on(*paths, exact=True):
    return Description(paths=paths, exact=exact)


@pytest.mark.parametrize(
    ("glob", "path", "allowed"),
    [
        ("src/**", "/srv/project/src/a.py", True),
        ("src/**", "/srv/project/src/deep/er/a.py", True),
        ("src/**", "/srv/project/vendor/src/a.py", False),
        ("src/**", "/srv/project-evil/src/a.py", False),
        ("src/**", "/elsewhere/src/a.py", False),
        ("src/**", "/srv/project/src/../secret.py", False),
        ("src/*", "/srv/project/src/deep/a.py", False),
        ("src/", "/srv/project/src/deep/a.py", True),
        ("*.py", "/srv/project/any/where/a.py", True),
        ("*.py", "/elsewhere/a.py", False),
        ("**", "/srv/project/a", True),
        ("**", "/srv/project", False),
        ("**", "/srv", False),
        ("/etc/**", "/etc/hosts", True),
        ("/etc/**", "/srv/project/etc/hosts", False),
        ("{src,docs}/**", "/srv/project/docs/a.md", True),
        ("SRC/**", "/srv/project/src/a.py", False),
    ],
)
def test_a_permission_takes_a_path_as_it_is_written(glob, path, allowed):
    assert verdict(windlass.allow(paths=[glob]), on(path), default="deny") == ("allow" if allowed else "deny")


@pytest.mark.parametrize(
    ("glob", "path", "denied"),
    [
        (".git/", "/srv/project/.git/config", True),
        (".git", "/srv/project/.git/hooks/pre-commit", True),
        (".git", "/srv/project/sub/.git/config", True),
        (".git", "/srv/project/.GIT/config", True),
        (".git", "/srv/project/.github/a.yml", False),
        (".env", "/home/someone/.env", True),
        ("src/gen/**", "/srv/project/src/gen/a.py", True),
        ("src/gen/**", "/other/src/gen/a.py", False),
        ("/etc/**", "/etc/../etc/passwd", True),
        ("/etc/**", "/srv/project/../../etc/passwd", True),
    ],
)
def test_a_denial_reaches_what_lies_in_a_folder_and_other_spellings(glob, path, denied):
    assert verdict(windlass.deny(paths=[glob]), on(path)) == ("deny" if denied else "allow")


def test_a_permission_must_fit_every_path_and_a_denial_fits_any():
    both = on("/srv/project/src/a", "/etc/b")
    assert verdict(windlass.allow(paths=["src/**"]), both, default="deny") == "deny"
    assert verdict(windlass.deny(paths=["src/**"]), both) == "deny"
    assert verdict(windlass.allow(paths=["src/**", "/etc/**"]), both, default="deny") == "allow"


def test_a_permission_by_path_says_nothing_of_a_call_that_names_none():
    assert verdict(windlass.allow(paths=["**"]), Description(), default="deny") == "deny"
    assert verdict(windlass.allow(paths=["src/**"]), on("/srv/project/src/a"), folder=None, default="deny") == "deny"


@pytest.mark.parametrize(
    "what",
    [
        {"paths": ["**"]},
        {"writes": ["**"]},
        {"hosts": ["*"]},
        {"commands": ["*"]},
    ],
)
def test_what_is_not_all_known_is_never_allowed_and_a_denial_is_asked_about(what):
    inside = "/srv/project/a"
    known = {"paths": (inside,), "writes": (inside,), "hosts": ("h.example",), "commands": ("ls",)}
    narrow = msgspec.convert({"exact": False, **{name: known[name] for name in what}}, Description)
    assert verdict(windlass.allow(**what), narrow, default="deny") == "deny"
    assert verdict(windlass.deny(**what), Description(exact=False)) == "ask"
    assert verdict(windlass.deny(**what), narrow) == "deny"
    assert verdict(windlass.deny(**what, known_only=True), Description(exact=False)) == "allow"
    assert verdict(windlass.deny(**what, known_only=True), narrow) == "deny"
    unclear = Description(unclear="nobody knows")
    assert verdict(windlass.deny(**what), unclear) == "ask"
    assert verdict(windlass.allow(**what), unclear, default="deny") == "deny"


@pytest.mark.parametrize(
    ("pattern", "host", "fits"),
    [
        ("example.org", "example.org", True),
        ("example.org", "EXAMPLE.org.", True),
        ("example.org", "www.example.org", False),
        ("example.org", "evil-example.org", False),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "example.org.evil", False),
        ("*.example.org", "evilexample.org", False),
        ("*", "anything", True),
    ],
)
def test_hosts_are_exact_or_all_beneath_a_name(pattern, host, fits):
    about = Description(hosts=(host,))
    assert verdict(windlass.allow(hosts=[pattern]), about, default="deny") == ("allow" if fits else "deny")
    assert verdict(windlass.deny(hosts=[pattern]), about) == ("deny" if fits else "allow")


@pytest.mark.parametrize(
    ("pattern", "commands", "allowed", "denied"),
    [
        ("git status", ("git status -s",), True, True),
        ("git status", ("git statuses",), False, False),
        ("git status", ("git status", "rm -rf ."), False, True),
        ("git status", ("git push",), False, False),
        ("npm run *", ("npm run test -- -x",), True, True),
        ("npm run *", ("npm run",), False, False),
        ("rm", ("/bin/rm -rf /",), False, True),
        ("git status", ("git 'status",), False, False),
        ("echo 'a b'", ("echo 'a b' c",), True, True),
        ("git*", ("git-evil",), True, True),
    ],
)
def test_commands_are_matched_by_their_first_words_each_of_them(pattern, commands, allowed, denied):
    about = Description(commands=commands)
    assert verdict(windlass.allow(commands=[pattern]), about, default="deny") == ("allow" if allowed else "deny")
    assert verdict(windlass.deny(commands=[pattern]), about) == ("deny" if denied else "allow")


@pytest.mark.parametrize(
    ("pattern", "command", "denied", "if_known"),
    [
        ("git push", "git --no-pager push", "deny", "deny"),
        ("git push", "/usr/bin/git -P --literal-pathspecs push origin", "deny", "deny"),
        ("npm publish", "npm --tag=x publish", "deny", "deny"),
        ("npm publish", "npm -w x publish", "ask", "allow"),
        ("docker push", "docker --config /x -D push x", "ask", "allow"),
        ("rm -rf", "rm -v -rf x", "deny", "deny"),
        ("git push", "git stash push", "allow", "allow"),
        ("git push", "git commit -m push", "allow", "allow"),
        ("git push", "git -P commit x push", "allow", "allow"),
        ("git push", "A=1", "allow", "allow"),
    ],
)
def test_a_denial_of_commands_sees_past_options(pattern, command, denied, if_known):
    """Of a word that may be the value of an option somebody is asked, unless the rule is to go by what is known."""
    about = Description(commands=(command,))
    assert verdict(windlass.deny(commands=[pattern]), about) == denied
    assert verdict(windlass.deny(commands=[pattern], known_only=True), about) == if_known
    assert verdict(windlass.allow(commands=[pattern]), about, default="deny") == "deny"


def test_a_permission_by_commands_does_not_reach_where_their_output_goes():
    redirected = Description(commands=("git status",), paths=("/etc/cron.d/x",), writes=("/etc/cron.d/x",))
    status = ["git status"]
    assert verdict(windlass.allow(commands=status), redirected, default="deny") == "deny"
    assert verdict(windlass.allow(commands=status, writes=["**"]), redirected, default="deny") == "deny"
    assert verdict(windlass.allow(commands=status, writes=["/etc/**"]), redirected, default="deny") == "allow"


def test_traits_are_those_of_the_very_call():
    shell = ToolSpec(name="sh", traits=("read", "write", "execute"), source="builtin")
    reads = Description(traits=("read",))
    assert verdict(windlass.allow(traits=["read"]), reads, shell, default="deny") == "allow"
    assert verdict(windlass.allow(traits=["read"]), Description(), shell, default="deny") == "deny"
    assert verdict(windlass.deny(traits=["write"]), reads, shell, default="allow") == "allow"
    assert verdict(windlass.deny(traits=["write"]), Description(), shell, default="allow") == "deny"
    silent = ToolSpec(name="quiet")
    assert verdict(windlass.allow(traits=["read"]), Description(), silent, default="deny") == "deny"


def test_modes_and_sources_narrow_a_rule():
    assert verdict(windlass.deny(modes=["autopilot"]), mode="autopilot") == "deny"
    assert verdict(windlass.deny(modes=["autopilot"])) == "allow"
    mounted = ToolSpec(name="do", source="mcp:files")
    assert verdict(windlass.allow(sources=["mcp:*"]), spec=mounted, default="deny") == "allow"
    assert verdict(windlass.allow(sources=["author"]), spec=mounted, default="deny") == "deny"


def test_labels_of_the_call_and_its_tool_count():
    marked = ToolSpec(name="do", labels=("private",))
    assert verdict(windlass.deny(labels=["private"]), spec=marked) == "deny"
    assert verdict(windlass.deny(labels=["private"])) == "allow"


def test_labels_that_the_session_carries_count_by_their_word_and_whole():
    for rule in (windlass.deny(labels=["untrusted"]), windlass.deny(labels=["untrusted:web"])):
        state = State()
        state.gate.policy = Policy([rule])
        assert verdicts.judge(state, SPEC, Prepared(digest="d")).action == "allow"
        labels.meet(state, ["untrusted:web"], "c1")
        assert verdicts.judge(state, SPEC, Prepared(digest="d")).action == "deny"
        assert (
            verdicts.judge(State(gate=state.gate), SPEC, Prepared(digest="d", labels=("untrusted:web",))).action
            == "deny"
        )


def test_conditions_see_the_session_and_what_the_call_does():
    assert verdict(windlass.deny(when="session.mode == 'plan'"), mode="plan") == "deny"
    assert verdict(windlass.deny(when="'write' in call.traits")) == "deny"
    assert (
        verdict(windlass.deny(when="call.paths.exists(p, p.startsWith(session.folder))"), on(FOLDER + "/a")) == "deny"
    )
    assert verdict(windlass.deny(when="session.metadata.tenant == 'a'")) == "ask"


@pytest.mark.parametrize(
    "wrong",
    [
        {"paths": ["../up"]},
        {"paths": [""]},
        {"writes": ["{a,b}" * 9]},
        {"hosts": ["https://example.org"]},
        {"hosts": ["a.*.org"]},
        {"commands": ["'open"]},
        {"commands": [" "]},
        {"rate": "many"},
        {"rate": "999/minute"},
        {"rate": "0/minute"},
        {"quota": 0},
        {"quota_per": "week"},
        {"traits": ["fly"]},
        {"kinds": ["sh"]},
        {"modes": ["fast"]},
        {"when": "args.x ="},
        {"when": "world.x"},
        {"wrong": 1},
    ],
)
def test_a_rule_that_says_nothing_is_refused_with_its_field(wrong):
    (field,) = wrong
    with pytest.raises(UsageError, match=f"^{field}: "):
        windlass.deny("do", **wrong)


def test_an_agent_is_not_made_with_a_rule_that_says_nothing():
    with pytest.raises(UsageError, match=r"rule 1 .*'a\.\*\.org' is no host"):
        windlass.Agent("a", policy=Policy([Rule(action="deny", hosts=("a.*.org",))]))


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/minute", Rate(calls=10, per_ms=60_000)),
        ("3/30s", Rate(calls=3, per_ms=30_000)),
        ("3 per 2 hours", Rate(calls=3, per_ms=7_200_000)),
        ("1/500ms", Rate(calls=1, per_ms=500)),
    ],
)
def test_rates_are_read_as_people_write_them(text, rate):
    assert rate_of(text) == rate


@pytest.mark.parametrize(
    ("action", "per_ms", "told"),
    [
        ("allow", 7_200_000, "allow mail at most 3 in 2 h"),
        ("allow", 90 * 60_000, "allow mail at most 3 in 90 min"),
        ("deny", 30_000, "deny mail after 3 in 30 s"),
        ("deny", 1_500, "deny mail after 3 in 1500 ms"),
    ],
)
def test_rates_are_told_as_people_write_them(action, per_ms, told):
    assert rule_words.describe(Rule(action=action, tool="mail", rate=Rate(calls=3, per_ms=per_ms))) == told


# --- what is counted ----------------------------------------------------------------------------------------------

RULED = (ToolAllowed, ToolDenied, PermissionRequested)


def made(session, number, times=1):
    """What became of calls of `pay`, one after the other, each in its own turn of the run."""
    said = []
    for i in range(times):
        events = session.reply("", call("pay", {"n": number * 100 + i}))
        said += [type(event).__name__.removeprefix("Tool") for event in events if isinstance(event, RULED)]
        for one in [event.call_id for event in events if isinstance(event, ToolAllowed)]:
            session.finish(one)
    return said


def with_rule(**more):
    return Session(policy=Policy(rules=(Rule(tool="pay", name="r", **more),), default="deny"))


def test_a_permission_holds_until_its_quota_is_used_up():
    session = with_rule(action="allow", quota=2)
    session.prompt()
    assert made(session, 1, times=3) == ["Allowed", "Allowed", "Denied"]


def test_a_denial_begins_after_its_quota():
    session = Session(policy=Policy(rules=(Rule(action="deny", tool="pay", quota=2),)))
    session.prompt()
    assert made(session, 1, times=3) == ["Allowed", "Allowed", "Denied"]


def test_a_quota_of_the_run_begins_anew_with_the_next_and_one_of_the_session_does_not():
    for per, then in (("run", "Allowed"), ("session", "Denied")):
        session = with_rule(action="allow", quota=1, quota_per=per)
        session.prompt()
        assert made(session, 1, times=2) == ["Allowed", "Denied"]
        session.reply("done")
        session.prompt()
        assert made(session, 2) == [then]


def test_a_rate_counts_the_last_while():
    session = with_rule(action="allow", rate=Rate(calls=2, per_ms=60_000))
    session.prompt()
    assert made(session, 1, times=3) == ["Allowed", "Allowed", "Denied"]
    session.at_ms += 60_001
    assert made(session, 2, times=1) == ["Allowed"]


def test_one_rule_alone_is_a_policy_of_one_rule():
    rule: Any = windlass.deny("pay", missing_ok=True)
    assert windlass.Policy(rule) == windlass.Policy([rule])
