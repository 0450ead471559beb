"""Goes over the grammar's tree of a text: every simple command, redirection, substitution and here-document in it.

Nothing is skipped: what stands inside an error is collected too, so that denials see it, and the text is not readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from windlass.tools.shell.shell_text import (
    LISTED_COMMANDS_MAX,
    NODES_MAX,
    Assignment,
    Heredoc,
    Redirect,
    SimpleCommand,
    Word,
    listed,
)

from .tree import tree_of
from .tree_words import Source

if TYPE_CHECKING:
    from tree_sitter import Node

CONTEXTS = {
    "pipeline": "pipeline",
    "subshell": "subshell",
    "command_substitution": "substitution",
    "process_substitution": "process substitution",
    "function_definition": "function",
    "for_statement": "loop",
    "c_style_for_statement": "loop",
    "while_statement": "loop",
    "if_statement": "condition",
    "case_statement": "condition",
    "heredoc_body": "here-document",
    "list": "list",
}
"""Kinds of nodes that a command can stand in, as people are told."""
DOUBTS = {
    "command_substitution": "it uses command substitution",
    "process_substitution": "it uses process substitution",
    "function_definition": "it defines a function",
    "simple_expansion": "it uses a variable",
    "expansion": "it uses a variable",
    "arithmetic_expansion": "it uses arithmetic",
    "ansi_c_string": "it uses $'…'",
    "translated_string": 'it uses $"…"',
    "brace_expression": "it uses brace expansion",
    "extglob_pattern": "it uses a pattern",
    "array": "it uses an array",
    "subscript": "it uses an array",
    "test_command": "it uses [[ … ]] or arithmetic",
    "c_style_for_statement": "it uses arithmetic",
    "declaration_command": "it declares variables",
    "unset_command": "it unsets variables",
    "for_statement": "it uses 'for'",
    "case_statement": "it uses 'case'",
}
KNOWN = listed(
    "program command command_name word number string raw_string string_content concatenation variable_name "
    "variable_assignment variable_assignments redirected_statement file_redirect heredoc_redirect heredoc_start "
    "heredoc_content heredoc_body heredoc_end herestring_redirect file_descriptor compound_statement elif_clause "
    "else_clause do_group case_item negated_command comment special_variable_name unary_expression "
    "binary_expression ternary_expression parenthesized_expression postfix_expression test_operator regex"
)
"""Kinds of nodes that need nothing said of them."""
EXPRESSIONS = frozenset({"unary_expression", "binary_expression", "parenthesized_expression", "negation_expression"})
BACKQUOTED = re.compile(r"`([^`]*)`")


class Walk:
    """What one walk over a tree has found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._source = Source(text)
        self.commands: list[SimpleCommand] = []
        self.redirects: list[Redirect] = []
        self.heredocs: list[Heredoc] = []
        self.substitutions: list[str] = []
        self.texts: list[str] = []
        """Texts in backquotes that the grammar takes for words."""
        self.doubt: str | None = None
        """Why the text is not exact."""
        self.fault: str | None = None
        """Why the text is not readable."""

    def whole(self) -> Walk:
        """Goes over the whole tree."""
        stack: list[tuple[Node, tuple[str, ...]]] = [(tree_of(self._text), ())]
        seen = 0
        while stack:
            node, within = stack.pop()
            seen += 1
            if seen > NODES_MAX or len(self.commands) > LISTED_COMMANDS_MAX:
                self._blame("the text has too many parts")
                break
            self._look_at(node, within)
            inside = CONTEXTS.get(node.type)
            if inside is not None and (not within or within[-1] != inside):
                within = (*within, inside)
            stack.extend((child, within) for child in reversed(node.children))
        self.redirects.sort(key=lambda r: r.at)
        return self

    def add(self, piece: Walk, begin: int) -> None:
        """Takes over what a walk over a piece of the text has found."""
        self.commands += (msgspec.structs.replace(c, at=begin + c.at) for c in piece.commands)
        self.redirects += (msgspec.structs.replace(r, at=begin + r.at) for r in piece.redirects)
        self.heredocs += piece.heredocs
        self.substitutions += piece.substitutions
        self.texts += piece.texts
        self.doubt = self.doubt or piece.doubt
        self.fault = self.fault or piece.fault

    def _look_at(self, node: Node, within: tuple[str, ...]) -> None:
        kind = node.type
        if kind == "ERROR" or node.is_missing:
            self._blame("the grammar of bash does not know all of it")
        elif kind in DOUBTS or kind in CONTEXTS or kind in KNOWN or not node.is_named:
            if kind in DOUBTS and not self._source.is_number(node) and not self._source.text_of(node).startswith("[ "):
                self._doubt(DOUBTS[kind])
        else:
            self._blame(f"it has an unknown construct: {kind}")
        if kind in COLLECTED:
            COLLECTED[kind](self, node, within)

    def _blame(self, why: str) -> None:
        self.fault = self.fault or why

    def _doubt(self, why: str | None) -> None:
        self.doubt = self.doubt or why

    def _command(self, node: Node, within: tuple[str, ...]) -> None:
        words: list[Word] = []
        assignments: list[Assignment] = []
        for child in node.children:
            if child.type == "variable_assignment" and not words:
                assignments.append(self._assignment(child))
            elif child.type not in ("file_redirect", "herestring_redirect", "heredoc_redirect", "subshell", "comment"):
                words.append(self._source.word_of(child))
            elif child.type == "subshell":
                self._blame("a subshell stands among the words of a command")
        command = SimpleCommand(words=tuple(words), assignments=tuple(assignments), within=within, at=node.start_byte)
        self.commands.append(command)

    def _declaration(self, node: Node, within: tuple[str, ...]) -> None:
        words = tuple(self._source.word_of(child) for child in node.children)
        self.commands.append(SimpleCommand(words=words, within=within, at=node.start_byte))

    def _test(self, node: Node, within: tuple[str, ...]) -> None:
        words = (
            tuple(self._flat(node))
            if self._source.text_of(node).startswith("[ ")
            else (Word(text=self._source.text_of(node), literal=False),)
        )
        self.commands.append(SimpleCommand(words=words, within=within, at=node.start_byte))

    def _alone(self, node: Node, within: tuple[str, ...]) -> None:
        """An assignment that stands alone; one before a command is taken with it."""
        parent = node.parent.type if node.parent is not None else ""
        if parent in ("command", "declaration_command"):
            return
        command = SimpleCommand(assignments=(self._assignment(node),), within=within, at=node.start_byte)
        self.commands.append(command)

    def _redirect(self, node: Node, within: tuple[str, ...]) -> None:
        fd, operator, targets = "", "", list[Word]()
        for child in node.children:
            if child.type == "file_descriptor":
                fd = self._source.text_of(child)
            elif not child.is_named and not operator:
                operator = self._source.text_of(child)
            else:
                targets.append(self._source.word_of(child))
        if len(targets) != 1 and operator not in (">&-", "<&-"):
            self._blame("a redirection stands among the words of a command")
        for target in targets or [Word(text="-")]:
            self.redirects.append(
                Redirect(operator=operator.removesuffix("-"), target=target, fd=fd, within=within, at=node.start_byte)
            )

    def _heredoc(self, node: Node, within: tuple[str, ...]) -> None:
        start = next((self._source.text_of(child) for child in node.children if child.type == "heredoc_start"), "")
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        text = self._source.text_of(body) if body is not None else ""
        quoted = any(c in start for c in "'\"\\")
        self.heredocs.append(Heredoc(body=text, literal=quoted or not any(c in text for c in "$`\\")))
        if not self.heredocs[-1].literal:
            self._doubt("a here-document is expanded")
            self.texts += BACKQUOTED.findall(text)

    def _expansion(self, node: Node, within: tuple[str, ...]) -> None:
        self.texts += BACKQUOTED.findall(self._source.text_of(node))

    def _substitution(self, node: Node, within: tuple[str, ...]) -> None:
        self.substitutions.append(self._source.text_of(node))

    def _flat(self, node: Node) -> Iterator[Word]:
        """The words of a test, which the grammar takes for an expression."""
        for child in node.children:
            if child.type in EXPRESSIONS:
                yield from self._flat(child)
            else:
                yield self._source.word_of(child) if child.is_named else Word(text=self._source.text_of(child))

    def _assignment(self, node: Node) -> Assignment:
        name, _, value = self._source.text_of(node).partition("=")
        last = node.children[-1] if node.children else None
        if last is None or last.type in ("=", "+=") or name.endswith("+") or "[" in name:
            return Assignment(name=name, value=Word(text=value, literal=not value))
        return Assignment(name=name, value=self._source.word_of(last))


COLLECTED = {
    "command": Walk._command,
    "declaration_command": Walk._declaration,
    "unset_command": Walk._declaration,
    "test_command": Walk._test,
    "variable_assignment": Walk._alone,
    "file_redirect": Walk._redirect,
    "herestring_redirect": Walk._redirect,
    "heredoc_redirect": Walk._heredoc,
    "command_substitution": Walk._substitution,
    "process_substitution": Walk._substitution,
    "expansion": Walk._expansion,
}
