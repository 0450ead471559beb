"""Digests of tools: over what the model is told, the contract and the code that runs; and apart from its prose, over
what a tool does and what it takes, which is what approvals rest on.

The same source gives the same digest in every process and on every machine; comments and layout do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from windlass.events.values.blocks import JsonObject

from .canonical_json import canonical

PROSE = frozenset({"description", "title", "examples", "$comment", "deprecated"})
"""Words of a JSON Schema that tell something and demand nothing."""
BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Words of a JSON Schema under which names stand, not words."""
VALUES = frozenset({"enum", "const", "default", "required", "dependentRequired"})
"""Words of a JSON Schema under which values stand as they are."""


def tool_digest(told: Any, function: Callable[..., Any] | None) -> str:
    """The digest of a tool: `told` is everything declared about it, as JSON."""
    seal = hashlib.sha256(canonical(told))
    seal.update(b"\n")
    seal.update(implementation(function).encode("utf-8", "backslashreplace"))
    return "sha256:" + seal.hexdigest()


def code_digest(function: Callable[..., Any] | None, *also: Any) -> str:
    """The digest of what a tool does, without docstrings and descriptions; `also` is what else decides that."""
    seal = hashlib.blake2b(implementation(function, prose=False).encode("utf-8", "backslashreplace"), digest_size=12)
    seal.update(canonical(list(also)))
    return seal.hexdigest()


def schema_digest(parameters: JsonObject) -> str:
    """The digest of what a tool takes, without what models are told of it."""
    return hashlib.blake2b(canonical(_without_prose(parameters)), digest_size=12).hexdigest()


def _without_prose(schema: Any) -> Any:
    """A JSON Schema without its descriptions, titles and examples. The names of properties are not words of it."""
    if isinstance(schema, list):
        return [_without_prose(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in BY_NAME and isinstance(value, dict):
            kept[key] = {name: _without_prose(part) for name, part in value.items()}
        elif key in VALUES:
            kept[key] = value
        elif key not in PROSE:
            kept[key] = _without_prose(value)
    return kept


def implementation(function: Callable[..., Any] | None, *, prose: bool = True) -> str:
    """The code of a callable as text. What it calls or captured is not part of it; docstrings are, unless `prose` is
    off."""
    target: Any = function
    bound: list[str] = []
    while isinstance(target, functools.partial):
        bound.append(repr(sorted(target.keywords)))
        target = target.func
    if target is None:
        return ""
    if not (inspect.isroutine(target) or isinstance(target, type)):
        target = type(target)
    return "\n".join([*bound, _source(target, prose=prose)])


def _source(target: Any, *, prose: bool) -> str:
    try:
        text = _text(target)
    except (OSError, TypeError):
        unwrapped = inspect.unwrap(target)
        code = getattr(unwrapped, "__code__", None)
        if code is None:
            return getattr(target, "__qualname__", "")
        return _code_text(code, without=None if prose else getattr(unwrapped, "__doc__", None))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text  # a lambda in the middle of an expression
    if not prose:
        _drop_prose(tree)
    return ast.unparse(tree)


@functools.lru_cache(maxsize=1)
def _text(target: Any) -> str:
    """The source of a function or class. Kept for a moment: a tool's two digests are made one after the other."""
    return textwrap.dedent(inspect.getsource(target))


def _drop_prose(tree: ast.Module) -> None:
    """Takes docstrings out of a tree, and descriptions out of its decorators."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call):
                mark.keywords = [given for given in mark.keywords if given.arg != "description"]


def _code_text(code: types.CodeType, *, without: str | None = None) -> str:
    """A code object as text, for functions without a source, such as those typed into an interpreter."""
    constants = [_constant(value) for value in code.co_consts if without is None or value != without]
    return repr((code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars))


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _code_text(value)
    if isinstance(value, frozenset):
        return repr(sorted(map(_constant, value)))  # its order differs between processes
    if isinstance(value, tuple):
        return repr([_constant(entry) for entry in value])
    return repr(value)
