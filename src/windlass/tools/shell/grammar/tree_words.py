"""The source of what stands in the grammar's tree, and the values of its words as far as they are literal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from windlass.tools.shell.shell_text import Word

from .plain_words import NUMBERS

if TYPE_CHECKING:
    from tree_sitter import Node

ESCAPE = re.compile(r"\\(.)", re.DOTALL)
QUOTED_ESCAPE = re.compile(r'\\([$`"\\])')
PATTERN = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")


class Source:
    """The text that a tree was made of: what stands at its nodes, and the values of its words."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text_of(self, node: Node) -> str:
        """A node's source. The tree has one byte for each character."""
        return self._text[node.start_byte : node.end_byte]

    def word_of(self, node: Node) -> Word:
        """A word with its value, or with its source if only the shell knows the value."""
        value = self._literal(node)
        if value is None or _expands(self._unquoted(node), value):
            return Word(text=self.text_of(node), literal=False)
        return Word(text=value)

    def is_number(self, node: Node) -> bool:
        """Whether it is a parameter that is a number, whatever has happened."""
        source = self.text_of(node) if node.type == "simple_expansion" else ""
        return len(source) == 2 and source[1] in NUMBERS

    def _unquoted(self, node: Node) -> str:
        """A word's source with a NUL for each quoted piece."""
        if node.type in ("string", "raw_string"):
            return "\0"
        if node.type in ("concatenation", "command_name"):
            return "".join(map(self._unquoted, node.children))
        return self.text_of(node)

    def _literal(self, node: Node) -> str | None:
        match node.type:
            case "word" | "variable_name" | "number" | "extglob_pattern" | "file_descriptor" | "test_operator":
                return _bare(self.text_of(node)) if not node.named_child_count else None
            case "raw_string":
                return self.text_of(node)[1:-1]
            case "string":
                return self._double(node)
            case "command_name" | "concatenation":
                pieces = [self._literal(child) for child in node.children]
                return None if None in pieces else "".join(piece for piece in pieces if piece is not None)
            case "simple_expansion":
                return self.text_of(node) if self.is_number(node) else None
            case "$" | "[" | "]" | "=" | "{" | "}":
                return self.text_of(node)
        return None

    def _double(self, node: Node) -> str | None:
        for child in node.children:
            if child.type not in ('"', "string_content", "$") and not self.is_number(child):
                return None
        return QUOTED_ESCAPE.sub(r"\1", self.text_of(node)[1:-1])


def _expands(bare: str, value: str) -> bool:
    """Whether something unquoted stands for the home folder, or braces may become several words."""
    if bare.startswith("~") or "=~" in bare or ":~" in bare:
        return True
    return "{" in bare and bare not in ("{", "{}") and ("," in value or ".." in value)


def _bare(source: str) -> str | None:
    if source != "[" and PATTERN.search(source):
        return None
    return ESCAPE.sub(r"\1", source) if "\\" in source else source
