"""Resolves annotations: of functions and classes, written as objects or as text, also where the names are local.

It never evaluates text itself; `typing.get_type_hints` does, one parameter at a time, so that an error can name it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

LOCAL_FRAMES_MAX = 8
"""How many calling frames are searched for types that are defined inside functions."""


class Unresolved(Exception):
    """A name in an annotation is not defined (yet)."""

    def __init__(self, owner: str, parameter: str, annotation: str, missing: str) -> None:
        super().__init__(
            f"{owner}: the type {annotation!r} of {parameter!r} cannot be resolved: {missing!r} is not defined where "
            "the tool is; import it outside of `if TYPE_CHECKING`, or define it at module level"
        )
        self.missing = missing


def resolve(annotation: Any, scope: Mapping[str, Any], names: Mapping[str, Any], owner: str, parameter: str) -> Any:
    """The type that an annotation means, `Annotated` kept. Raises `Unresolved` for a name that is not there."""
    if type(annotation) is type:
        return annotation
    # A class, not a function: only there are ClassVar and NotRequired legal at the top.
    holder = type("Holder", (), {"__annotations__": {"it": annotation}})
    try:
        return typing.get_type_hints(holder, dict(scope), dict(names), include_extras=True)["it"]
    except NameError as error:
        raise Unresolved(owner, parameter, spelled(annotation), str(error.name)) from None
    except (SyntaxError, TypeError, AttributeError) as error:
        raise Unresolved(owner, parameter, spelled(annotation), str(error)) from None


def spelled(annotation: Any) -> str:
    """An annotation as its author wrote it."""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def documented(function: Callable[..., Any]) -> Any:
    """What carries a callable's own docstring and name: the function inside a partial, the `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return function if function.__doc__ and "__call__" not in vars(type(function)) else type(function).__call__


def scope_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The global names of a callable, through wrappers, partials and bound methods."""
    target: Any = function
    while True:
        if isinstance(target, functools.partial):
            target = target.func
        elif isinstance(target, types.MethodType):
            target = target.__func__
        elif hasattr(target, "__wrapped__"):
            target = target.__wrapped__
        else:
            break
    if not hasattr(target, "__globals__"):
        owner: Any = target if isinstance(target, type) else type(target)
        target = owner.__init__ if owner is target else owner.__call__
    return dict(getattr(target, "__globals__", {}))


def closure_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that a function took from the functions around it."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    closure: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue  # not bound yet
    return closure


def local_names(function: Callable[..., Any], depth: int) -> dict[str, Any]:
    """The names used in a function's textual annotations, as far as the callers' frames define them locally.

    Only names that the annotations use are kept, so that nothing else stays alive.
    """
    wanted = _names_in(getattr(function, "__annotations__", {}).values())
    if not wanted:
        return {}
    return {**_from_frames(wanted, scope_of(function), depth + 1), **closure_of(function)}


def _from_frames(wanted: set[str], scope: Mapping[str, Any], depth: int) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(depth)
    for _ in range(LOCAL_FRAMES_MAX):
        if frame is None or frame.f_code.co_name == "<module>":
            break
        if frame.f_globals.get("__name__") == scope.get("__name__"):
            for name in wanted.intersection(frame.f_locals):
                namespace.setdefault(name, frame.f_locals[name])
        frame = frame.f_back
    return namespace


def _names_in(annotations: Any) -> set[str]:
    names: set[str] = set()
    for annotation in annotations:
        if not isinstance(annotation, str):
            continue
        try:
            tree = ast.parse(annotation, mode="eval")
        except SyntaxError:
            continue  # `resolve` reports it
        names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in ast.walk(tree):  # quoted parts inside a textual annotation
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                names.add(node.value)
    return names


def class_hints(cls: type, names: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The types of a class's fields, inherited ones first. A local class may refer to itself."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        # A default such as `date: date = None` must not hide the type, so the class's own names come last.
        scope = {**vars(base), **vars(sys.modules.get(base.__module__, types))}
        local = {cls.__name__: cls, base.__name__: base, **names}
        for field, annotation in inspect.get_annotations(base).items():
            hints[field] = resolve(annotation, scope, local, owner, f"{cls.__name__}.{field}")
    return hints
