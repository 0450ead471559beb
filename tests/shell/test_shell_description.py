"""What a call of the shell tool says of itself before it is judged."""

from __future__ import annotations

import pytest

from windlass.events.tools.permissions import ShellCommand, ShellDetail
from windlass.protocol.permission_words import detail_text
from windlass.tools.description import CallPlace, Description
from windlass.tools.shell.shell_description import shell_description

PLACE = CallPlace(folder="/ws")


def described(command: str) -> Description:
    return shell_description({"command": command, "intention": "look"}, PLACE)


def test_a_reading_command_is_described_whole() -> None:
    assert described("cat src/a.py") == Description(
        subject="cat src/a.py",
        detail=ShellDetail(
            command="cat src/a.py",
            intention="look",
            commands=(ShellCommand(identifier="cat", read_only=True),),
            paths=("/ws/src/a.py",),
        ),
        paths=("/ws/src/a.py",),
        commands=("cat src/a.py",),
        traits=("read",),
    )


def test_a_redirection_is_a_line_of_its_own_and_a_write() -> None:
    about = described("echo x > out.txt")
    assert (about.commands, about.writes, about.traits) == (("echo x", "> out.txt"), ("/ws/out.txt",), None)
    assert isinstance(about.detail, ShellDetail)
    assert about.detail.writes_by_redirect


def test_nothing_stands_for_two_commands() -> None:
    assert described("git status; rm -r x").subject == ""


@pytest.mark.parametrize(
    "command",
    [
        "git log --output=x",
        "sort a.py -o x",
        "sed -i s/a/b/ x",
        "uniq a.py x",
        "tree -o x",
        "find . -fprint x",
        "find x -delete",
    ],
)
def test_nothing_stands_for_a_command_that_writes_though_its_name_is_known_for_reading(command: str) -> None:
    """Whoever agrees to `git log *` does not mean `git log --output=FILE`."""
    about = described(command)
    assert (about.exact, about.subject, about.writes) == (True, "", ("/ws/x",))
    assert all(described(text).subject == text for text in ("git log", "sort x", "sed s/a/b/ x", "find x", "touch x"))


def test_a_text_with_a_variable_is_not_exact_and_offers_no_standing_approval() -> None:
    about = described("rm $X")
    assert (about.exact, about.subject, about.unclear) == (False, "", None)
    assert isinstance(about.detail, ShellDetail)
    assert not about.detail.session_approval_offered


def test_a_text_that_cannot_be_read_is_unclear_and_its_commands_are_listed() -> None:
    about = described("rm x; echo 'unfinished")
    assert about.unclear is not None
    assert "rm x" in about.commands


@pytest.mark.parametrize("given", [{"cwd": "sub"}, {"background": True}, {"background": "detached"}])
def test_no_pattern_covers_a_command_that_runs_elsewhere_or_in_the_background(given: dict[str, object]) -> None:
    assert shell_description({"command": "sh make.sh"}, PLACE).subject == "sh make.sh"
    assert shell_description({"command": "sh make.sh", **given}, PLACE).subject == ""


def test_a_person_is_shown_where_and_how_a_command_runs_and_why() -> None:
    given = {"command": "rm -r build", "cwd": "sub", "background": True, "intention": "clean\nwarning: none"}
    about = shell_description(given, PLACE)
    assert about.detail is not None
    assert detail_text(about.detail).split("\n") == [
        'in the folder "sub":',
        "in the background:",
        "rm -r build",
        "intention, as the model says: clean warning: none",
        "warning: removes files",
    ]
