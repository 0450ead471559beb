"""Help that fits the screen: paragraphs are filled again, and what is said beside an example stays beside it."""

from __future__ import annotations

import re

from windlass.cli.terminal.text import BESIDE_MIN, cells, fold_lines, hung

EXAMPLE = re.compile(r"(  \S.*?\s{2,})(\S.*)")
HEADING = re.compile(r"[a-z ]+: ?")


def fitted(text: str, width: int) -> str:
    """A help text for a screen of some width; one that fits stays as it is."""
    blocks = [fitted_block(block, width) for block in text.split("\n\n")]
    return "\n\n".join(blocks)


def fitted_block(block: str, width: int) -> str:
    lines = block.split("\n")
    if all(cells(line) <= width for line in lines):
        return block
    folded: list[str] = []
    for line in joined(lines):
        folded += example(line, width) if line.startswith("  ") else fold_lines(line, width)
    return "\n".join(folded)


def joined(lines: list[str]) -> list[str]:
    """The lines of a block, those of one paragraph made one."""
    whole: list[str] = []
    for line in lines:
        goes_on = line and whole and whole[-1] and not line.startswith(" ") and not whole[-1].startswith(" ")
        if goes_on and not HEADING.match(line) and not whole[-1].endswith(":"):
            whole[-1] += f" {line}"
        else:
            whole.append(line)
    return whole


def example(line: str, width: int) -> list[str]:
    """An indented line; what is said beside it is folded there, or stands beneath."""
    parts = EXAMPLE.fullmatch(line)
    if cells(line) <= width or parts is None:
        return hung(line, width, "      ")
    command, said = parts[1], parts[2]
    room = width - cells(command)
    if room >= BESIDE_MIN:
        first, *rest = fold_lines(said, room)
        return [command + first, *(" " * cells(command) + piece for piece in rest)]
    return [*hung(command.rstrip(), width, "      "), *(" " * 6 + piece for piece in fold_lines(said, width - 6))]
