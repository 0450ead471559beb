"""The reference page of the command line, written from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from .main import EXIT_CODES, build
from .verbs import VERBS

HEAD = """# The command line

This page is generated from the parsers (`python dev/docs.py`). `windlass VERB --help` says the same.

Verbs that work on sessions open a store directly: `--store PATH`, else `$WINDLASS_STORE`, else the store of this
workspace. That is the git repository around the current folder, or else the folder itself, and its store lies in your
state folder, never in the workspace: `$XDG_STATE_HOME/windlass/NAME-HASH/windlass.db`, by default under
`~/.local/state`. `windlass doctor` says where. Verbs that only look make no store, and read one on read-only media.

A session is named by its id, by the beginning of its id, or by `-` for the one that changed last.
Commands that change a session go through its inbox, so they work while another process drives it.

Text of models and tools is printed with every control, bidirectional and invisible character spelt out. Colours are
used on terminals only, and not if `NO_COLOR` is set. `--json` is for programs.

## Exit codes

| code | meaning |
|---|---|
"""


def cli_page() -> str:
    """The whole page."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    return HEAD + codes + "".join(section for name in VERBS for section in verb(name))


def verb(name: str) -> Iterator[str]:
    """One verb: what it does, what it takes, examples."""
    parser = parser_of(name)
    yield f"\n## windlass {name}\n\n{sentence(parser.description or '')}\n"
    yield from takes(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                told = next((choice.help for choice in action._choices_actions if choice.dest == word), "")
                yield f"\n`windlass {name} {word}`: {told}\n"
                yield from takes(inner)
    if parser.epilog:
        yield f"\n```text\n{parser.epilog.strip()}\n```\n"


def parser_of(name: str) -> argparse.ArgumentParser:
    for action in build([name])._actions:
        if isinstance(action, argparse._SubParsersAction):
            parser: argparse.ArgumentParser = action.choices[name]
            return parser
    raise AssertionError("the parser has verbs")


def takes(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [row for action in parser._actions if (row := entry(action)) is not None]
    if rows:
        yield "\n| takes | meaning |\n|---|---|\n"
        yield from rows


def entry(action: argparse.Action) -> str | None:
    """One argument as a row; None for those that everyone has or nobody should see."""
    if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
        return None
    value = ""
    if action.nargs != 0:
        shown = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
        value = str(shown)
    names = ", ".join(action.option_strings)
    told = " ".join(part for part in (names, value) if part).replace("|", "\\|")
    meaning = (action.help or "").replace("|", "\\|").replace("%%", "%")
    return f"| `{told}` | {meaning} |\n"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
