"""Policies out of TOML and YAML: data alone, bounded, and what is wrong is said with file, line and fix."""

from __future__ import annotations

import pathlib
import re

import pytest

from windlass.events.errors import UsageError
from windlass.events.values.policy import Policy, Rate, Rule
from windlass.policies import SANDBOXED, load_policy
from windlass.runtime.bind.policy_files import BadPolicyFile, policy_from
from windlass.tools.files.protected_names import PLACES

TOML = """
default = "ask"
exclude = ["*.pem", "secrets/"]
exclude_patterns = ['sk-[a-z0-9]{8,}']

[[rules]]
action = "deny"
tool = "delete_*"
reason = "nothing is ever deleted"

[[rules]]
action = "allow"
tool = "fetch"
hosts = ["*.example.org"]
rate = "10/minute"
quota = 50

[[rules]]
action = "allow"
kinds = ["write"]
writes = [
    "src/**",
    "docs/**",
]
when = '''
args.path != "a"
'''
"""
YAML = """
default: ask
exclude: ["*.pem", secrets/]
exclude_patterns:
  - sk-[a-z0-9]{8,}
rules:
  - action: deny
    tool: delete_*
    reason: nothing is ever deleted
  - {action: allow, tool: fetch, hosts: ["*.example.org"], rate: 10/minute, quota: 50}
  - action: allow
    kinds: [write]
    writes: [src/**, docs/**]
    when: |
      args.path != "a"
"""
MEANT = Policy(
    [
        Rule(action="deny", tool="delete_*", reason="nothing is ever deleted", name="deny delete_*"),
        Rule(
            action="allow",
            tool="fetch",
            hosts=("*.example.org",),
            rate=Rate(calls=10, per_ms=60_000),
            quota=50,
            name="allow fetch",
        ),
        Rule(
            action="allow",
            kinds=("write",),
            writes=("src/**", "docs/**"),
            when='args.path != "a"\n',
            name="allow *",
        ),
    ],
    default="ask",
    exclude=("*.pem", "secrets/"),
    exclude_patterns=("sk-[a-z0-9]{8,}",),
)


@pytest.mark.parametrize(("name", "text"), [("p.toml", TOML), ("p.yaml", YAML), ("p.yml", YAML)])
def test_both_languages_say_the_same(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert load_policy(tmp_path / name) == MEANT


def test_a_file_that_was_read_may_not_be_written_by_tools(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(TOML)
    load_policy(path)
    assert PLACES.covering(str(path)) is not None


def test_a_file_may_begin_with_a_preset():
    policy = policy_from('preset = "sandboxed"\n[[rules]]\naction = "deny"\ntool = "shell"', "p.toml")
    assert policy.rules[1:] == SANDBOXED.rules
    assert (policy.rules[0].tool, policy.default) == ("shell", "ask")
    assert policy_from('preset = "sandboxed"\ndefault = "deny"', "p.toml").default == "deny"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('defualt = "ask"', "p.toml:1: unknown key 'defualt': there are rules, preset, default"),
        ('\ndefault = "maybe"', "p.toml:2: default: 'maybe' is none of standard, allow, ask, deny"),
        ('preset = "open"', "p.toml:1: no preset 'open': there are standard, allow-all"),
        ("x = [\n1,\n2]\n\ndefault = 1", "p.toml:5: default: 1 is none of standard, allow"),
        ('[[rules]]\naction = "deny"\n\n[[rules]]\naction = "alow"', "p.toml:5: action: 'alow' is none of allow"),
        ('[[rules]]\naction = "deny"\n[[rules]]\ntool = "x"', "p.toml:3: a rule needs an action: allow, ask or deny"),
        ('[[rules]]\naction = "deny"\npath = ["a"]', "p.toml:3: unknown key 'path' in a rule: there are action, tool"),
        (
            '[[rules]]\naction = "deny"\npaths = [\n"../x"]',
            "p.toml:3: paths: '../x' is no glob of paths: write 'src/**'",
        ),
        ('[[rules]]\naction = "deny"\nwhen = "args.x ="', "p.toml:3: when: condition 'args.x =' is not CEL"),
        ('[[rules]]\naction = "deny"\nrate = "often"', "p.toml:3: rate: 'often' is no rate: write '10/minute'"),
        ('[[rules]]\naction = "deny"\nhosts = ["http://a"]', "p.toml:3: hosts: 'http://a' is no host"),
        ('[[rules]]\naction = "deny"\nkinds = ["sh"]', "p.toml:3: kinds: 'sh' is none of shell"),
        ('[[rules]]\naction = "deny"\nquota = "9"', "p.toml:3: quota: a whole number above 0 is wanted, not '9'"),
        ('trifecta = "no"', "p.toml:1: trifecta: 'no' is none of ask, deny, allow"),
        ("exclude = 3", "p.toml:1: exclude: a list of texts is wanted, not 3"),
        ('[[rules]]\naction = "deny"\ntraits = ["read", "reed"]', "p.toml:3: traits: 'reed' is none of read, write"),
        ('[[rules]]\naction = "deny"\nquota = 0', "p.toml:3: quota: a whole number above 0 is wanted, not 0"),
        ('[[rules]]\naction = "deny"\nconfined = 1', "p.toml:3: confined: true or false is wanted, not 1"),
        ('[[rules]]\naction = "deny"\nrate = 3', "p.toml:3: rate: a rate such as '10/minute' is wanted, not 3"),
        ("rules = 3", "p.toml:1: rules: a list is wanted"),
        ("rules = [3]", "p.toml:1: a rule is a table of fields"),
        ('a = """\n[[rules]]\nb = 1\n"""\nc = 2', "p.toml:5: unknown key 'c'"),
        ("exclude_patterns = ['(?=x)']", "p.toml:1: exclude_patterns='(?=x)' cannot be searched for"),
        ("exclude_patterns = ['x*']", "p.toml:1: exclude_patterns='x*' fits nothing at all"),
        ('exclude = ["../x"]', "p.toml:1: exclude='../x' is no pattern of files"),
        ("a = 1\na = 2", "p.toml:2: not TOML: cannot overwrite a value"),
        ("a = ", "p.toml:1: not TOML: "),
        ("a = " + "[" * 5_000, "p.toml:1: "),
        ("a = " + "[" * 20 + "]" * 20, "p.toml:1: nested more than 8 deep"),
    ],
)
def test_what_is_wrong_in_toml_is_said_with_its_line(text, told):
    with pytest.raises(UsageError) as wrong:
        policy_from(text, "p.toml")
    assert told in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("default: ask\ndefualt: ask", "p.yaml:2: unknown key 'defualt'"),
        ("default: ask\ndefault: deny", "p.yaml:2: the key 'default' stands here twice"),
        ("rules:\n  - action: deny\n    tool: a\n    tool: b", "p.yaml:4: the key 'tool' stands here twice"),
        ("rules:\n  - action: deny\n  - tool: a\n    wehn: x", "p.yaml:4: unknown key 'wehn' in a rule"),
        ("rules:\n  - action: deny\n    when: |\n      args.x =", "p.yaml:3: when: condition"),
        ("a: &x [1]\nb: *x", "p.yaml:1: anchors and aliases are not taken"),
        ("rules: !!python/object/apply:os.system [echo]", "p.yaml:1: tags such as"),
        ("default: !!str ask", "p.yaml:1: tags such as"),
        ("a: 1\n---\nb: 2", "p.yaml:2: a second document"),
        ("- a", "p.yaml:1: a policy file is a table of keys"),
        ("? [a]\n: b", "p.yaml:1: keys are plain words"),
        ("a: [", "p.yaml:1: not YAML: "),
        ("a: " + "[" * 50 + "]" * 50, "p.yaml:1: nested more than 8 deep"),
        ("a: [" + "1," * 30_000 + "]", "more than 20000 values"),
        ("a: \x01", "p.yaml:1: not YAML"),
    ],
)
def test_what_is_wrong_in_yaml_is_said_with_its_line(text, told):
    with pytest.raises(UsageError) as wrong:
        policy_from(text, "p.yaml")
    assert told in str(wrong.value)


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(BadPolicyFile) as wrong:
        policy_from(
            'defualt = 1\n[[rules]]\naction = "no"\n[[rules]]\naction = "deny"\nhosts = ["a b"]\nx = 1', "p.toml"
        )
    assert [problem.split(": ")[0] for problem in wrong.value.problems] == [f"p.toml:{n}" for n in (1, 3, 6, 7)]


def test_every_wrong_key_of_a_rule_is_said_in_the_order_of_lines():
    text = "rules:\n  - action: dney\n    hosts: ['a b', 'http://a']\n    rate: often\n    wehn: x\n    quota: many\ndefault: maybe\n"
    with pytest.raises(BadPolicyFile) as wrong:
        policy_from(text, "p.yaml")
    assert [problem.split(": ")[:2] for problem in wrong.value.problems] == [
        ["p.yaml:2", "action"],
        ["p.yaml:3", "hosts"],
        ["p.yaml:3", "hosts"],
        ["p.yaml:4", "rate"],
        ["p.yaml:5", "unknown key 'wehn' in a rule"],
        ["p.yaml:6", "quota"],
        ["p.yaml:7", "default"],
    ]
    assert "enum" not in str(wrong.value)


def test_an_empty_yaml_file_is_the_standard_policy():
    assert policy_from("", "p.yaml") == Policy() == policy_from("", "p.toml")


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("p.json", b"{}", "a policy file ends in .toml, .yaml, .yml"),
        ("p.toml", b"a = 1\n\xff", ":2: not text in UTF-8"),
        ("p.toml", b"#" * 300_000, "larger than"),
        ("p.toml", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, name, data, told):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=told):
        load_policy(tmp_path / name)


def test_the_page_says_the_same_in_both_languages():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "tasks" / "write-a-policy.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (yaml,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    policy = policy_from(toml, "p.toml")
    assert policy == policy_from(yaml, "p.yaml")
    assert [rule.action for rule in policy.rules[:2]] == ["allow", "deny"]
