"""Digests of tools: over what the model is told, the contract and the code that runs.

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

from .canonical import canonical


def tool_digest(told: Any, function: Callable[..., Any] | None) -> str:
    """The digest of a tool: `told` is everything declared about it, as JSON."""
    seal = hashlib.sha256(canonical(told))
    seal.update(b"\n")
    seal.update(implementation(function).encode("utf-8", "backslashreplace"))
    return "sha256:" + seal.hexdigest()


def implementation(function: Callable[..., Any] | None) -> str:
    """The code of a callable as text. What it calls or captured is not part of it."""
    target: Any = function
    bound: list[str] = []
    while isinstance(target, functools.partial):
        bound.append(repr(sorted(target.keywords)))
        target = target.func
    if target is None:
        return ""
    if not (inspect.isroutine(target) or isinstance(target, type)):
        target = type(target)
    return "\n".join([*bound, _source(target)])


def _source(target: Any) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(target))
    except (OSError, TypeError):
        code = getattr(inspect.unwrap(target), "__code__", None)
        return _code_text(code) if code is not None else getattr(target, "__qualname__", "")
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:
        return text  # a lambda in the middle of an expression


def _code_text(code: types.CodeType) -> str:
    """A code object as text, for functions without a source, such as those typed into an interpreter."""
    constants = [_constant(value) for value in code.co_consts]
    return repr((code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars))


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _code_text(value)
    if isinstance(value, frozenset):
        return repr(sorted(map(_constant, value)))  # its order differs between processes
    if isinstance(value, tuple):
        return repr([_constant(entry) for entry in value])
    return repr(value)
