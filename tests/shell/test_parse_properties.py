"""Whatever text comes, it is read within bounds, and what was quoted is read back as it was."""

from __future__ import annotations

import shlex
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.tools.description import CallPlace, _sound
from windlass.tools.shell.grammar.hidden_characters import INVISIBLE
from windlass.tools.shell.parse import parse
from windlass.tools.shell.shell_description import program_description, shell_description
from windlass.tools.shell.shell_text import TEXT_CHARS_MAX

PIECES = st.sampled_from(
    [
        *(
            "ls",
            "rm",
            "-rf",
            "a.py",
            "'a b'",
            '"x"',
            "$x",
            "${y:-z}",
            "$(",
            ")",
            "`",
            "(",
            "{",
            "}",
            "|",
            "||",
            "&&",
            "&",
            ";",
        ),
        *(
            ";;",
            "\n",
            "<<E\n",
            "E\n",
            "<<'E'\n",
            "<<-E",
            "<<<",
            ">",
            ">>",
            "2>&1",
            "<",
            "<(",
            "if",
            "then",
            "fi",
            "for",
            "in",
        ),
        *(
            "do",
            "done",
            "case",
            "esac",
            "while",
            "function f",
            "f()",
            "[[",
            "]]",
            "[",
            "]",
            "((",
            "))",
            "$((",
            "!",
            "time",
        ),
        *(
            "eval",
            "bash -c",
            "xargs",
            "find . -exec",
            "sudo",
            "env",
            "A=1",
            "A=(",
            "*",
            "?",
            "[ab]",
            "{a,b}",
            "~",
            "\\",
            "\\\n",
        ),
        *(
            "'",
            '"',
            "$'",
            "#",
            "\t",
            "\r",
            "\0",
            "\u00a0",
            "\u200b",
            "\ud800",
            "é",
            "=",
            "+=",
            "coproc",
            "select",
            "@(",
            "!(",
        ),
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map(" ".join) | st.lists(PIECES, max_size=40).map("".join)
LETTERS = st.characters(exclude_categories=("C", "Z"), exclude_characters=sorted(INVISIBLE)) | st.sampled_from(" \n\t")
WORDS = st.text(LETTERS, min_size=1, max_size=12).filter(
    lambda word: word != "=="
)  # the grammar takes it for an operator
NAMES = st.from_regex(r"x[a-z0-9_-]{0,8}", fullmatch=True)
COMMANDS = st.lists(st.tuples(NAMES, st.lists(WORDS, max_size=5)).map(lambda c: (c[0], *c[1])), min_size=1, max_size=8)
JOINTS = st.sampled_from(["; ", " && ", " || ", " | ", "\n", " & ", ";", "|", "&&"])


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
def test_no_text_makes_it_raise_or_take_long(text: str) -> None:
    begun = time.process_time()
    about = shell_description({"command": text}, CallPlace(folder="/ws"))
    assert time.process_time() - begun < 5
    assert about.exact or about.traits is None
    assert about.exact or about.subject == ""
    assert parse(text).exact == (parse(text).unclear is None)


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=200))
def test_any_characters_are_read_without_an_error(text: str) -> None:
    shell_description({"command": text}, CallPlace())


@settings(max_examples=300, deadline=None)
@given(commands=COMMANDS, joints=st.lists(JOINTS, min_size=8, max_size=8))
def test_quoted_commands_are_read_back_word_for_word(commands: list[tuple[str, ...]], joints: list[str]) -> None:
    text = shlex.join(commands[0])
    for joint, command in zip(joints, commands[1:], strict=False):
        text += joint + shlex.join(command)
    found = parse(text)
    assert ([c.argv for c in found.commands], found.unclear) == (commands, None)


@settings(max_examples=150, deadline=None)
@given(argv=st.tuples(NAMES, st.lists(WORDS, max_size=6)).map(lambda c: [c[0], *c[1]]))
def test_a_program_is_described_by_exactly_its_words(argv: list[str]) -> None:
    assert program_description({"argv": argv}, CallPlace()).commands == (shlex.join(argv),)


def test_a_hostile_megabyte_is_refused_before_it_is_read() -> None:
    begun = time.process_time()
    for piece in ("$(", "a|", "()", "'", "<<A\n", "x"):
        found = parse(piece * (1_000_000 // len(piece)))
        assert not found.readable
    assert time.process_time() - begun < 2


def test_hostile_texts_of_the_longest_length_are_read_within_a_bound() -> None:
    pieces = (
        "<<A ",
        "${",
        "a=(",
        "a|",
        "()",
        ")",
        "<<<",
        "$[",
        ">",
        "|&",
        "for ",
        "case a in (b) c;; ",
        '"${',
        "'",
        '"',
        "a;",
        "x ",
    )
    for piece in pieces:
        begun = time.process_time()
        parse((piece * TEXT_CHARS_MAX)[:TEXT_CHARS_MAX])
        assert time.process_time() - begun < 10, piece


def test_every_description_is_within_the_bounds_that_descriptions_have() -> None:
    texts = [
        "; ".join(f"x{n} y" for n in range(200)),
        "cat " + " ".join(f"f{n}" for n in range(200)),
        "echo " + "a" * 9_000,
    ]
    for text in texts:
        about = shell_description({"command": text}, CallPlace(folder="/ws"))
        assert _sound(about).commands == about.commands != ()
