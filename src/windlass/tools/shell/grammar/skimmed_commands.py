"""Commands that might stand in a text which the grammar does not know: every piece between operators, cut at blanks.

It is for denials only. It sees too much (words in quotes) and promises nothing; such a text is asked about in any case.
"""

from __future__ import annotations

import re

from windlass.tools.shell.shell_text import LISTED_COMMANDS_MAX, SimpleCommand, Word, listed

CUTS = re.compile(r"[;&|\n\r`(){}]+|\$\(")
PASSED_OVER = listed("then do else elif if while until ! time exec command builtin sudo env nohup eval")
WORDS_MAX = 16
PIECES_MAX = 4_000


def skimmed(text: str) -> list[SimpleCommand]:
    """What might be commands, each name once with its first words."""
    commands: dict[str, SimpleCommand] = {}
    for piece in CUTS.split(text, maxsplit=PIECES_MAX):
        words = [bare for bare in (word.strip("'\"\\") for word in piece.split(maxsplit=WORDS_MAX)[:WORDS_MAX]) if bare]
        while words and (words[0] in PASSED_OVER or "=" in words[0] or words[0][0] in "<>"):
            del words[0]
        if words and words[0] not in commands and len(commands) < LISTED_COMMANDS_MAX:
            kept = tuple(Word(text=word, literal=False) for word in words)
            commands[words[0]] = SimpleCommand(words=kept, within=("skimmed",))
    return list(commands.values())
