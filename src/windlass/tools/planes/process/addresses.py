"""Where the code of a tool is found by another process: its module and its name in it. Nothing else crosses over, so
what has no name (a closure, a lambda, a method of one object) cannot run there, and that is said in advance."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
from typing import Any

from windlass.events.errors import UsageError
from windlass.tools.tool import AnyTool, Options, Tool
from windlass.tools.tool_digest import code_digest

from .messages import Address, Call

MAIN = "__windlass_main__"
"""What a program that was run by its path is called in a worker: not `__main__`, so that it does not run again."""


def address_of(tool: AnyTool) -> Address:
    """Where a worker finds a tool. Raises `UsageError` for one that it could not find."""
    function: Any = tool.function
    owner = f"tool {tool.name!r} runs on a plane of processes"
    module, name = _module_of(function), str(getattr(function, "__qualname__", ""))
    if not module or not name or "<" in name:
        what = f"{name!r} is made while the program runs" if "<" in name else "it is no function with a name"
        raise UsageError(f"{owner}, which finds it by its name, but {what}: define it at the top of a module")
    loaded = sys.modules.get(module)
    target = _within(loaded, name)
    if not _is(target, tool):
        raise UsageError(
            f"{owner}, but {module}.{name} is not it: a worker finds functions and class methods of modules, no "
            "methods of objects and nothing that was replaced"
        )
    if module != "__main__":
        return Address(module=module, name=name)
    return _of_the_program(loaded, name, owner)


def _of_the_program(program: Any, name: str, owner: str) -> Address:
    spec, path = getattr(program, "__spec__", None), getattr(program, "__file__", None)
    if spec is not None:
        return Address(module=str(spec.name), name=name)
    if path is None or not os.path.isfile(path):
        raise UsageError(f"{owner}, but it was typed in and is in no file: put it into one")
    return Address(module=MAIN, name=name, path=os.path.abspath(path))


def _module_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        return ""
    if isinstance(function, types.MethodType) and not isinstance(function.__self__, type):
        return ""
    return str(getattr(function, "__module__", "") or "")


def _within(module: Any, name: str) -> Any:
    target = module
    for piece in name.split("."):
        target = getattr(target, piece, None)
    return target


def _is(target: Any, tool: AnyTool) -> bool:
    """Whether what stands under a name is a tool, or the function that it was made of."""
    inner = target.function if isinstance(target, Tool) else target
    function: Any = tool.function
    plain = function.__func__ if isinstance(function, staticmethod) else function
    return target is tool or inner in (function, plain)


def found_tool(call: Call) -> AnyTool:
    """The tool that a call is for, in a worker. Raises whatever its module raises, and `UsageError` if its code is not
    what the runtime has."""
    target = _within(_loaded(call.address), call.address.name)
    if not callable(target):
        raise UsageError(f"there is no {call.address.name!r} in {call.address.module!r}")
    made = target if isinstance(target, Tool) else Tool(target, Options(name=call.tool, parameters=call.parameters))
    if code_digest(made.function) != call.code:
        raise UsageError("its code on disk is not the code that the runtime has: it was changed since; start again")
    return made


def _loaded(address: Address) -> Any:
    if address.path is None:
        return importlib.import_module(address.module)
    if MAIN not in sys.modules:
        from importlib.machinery import SourceFileLoader
        from importlib.util import module_from_spec, spec_from_loader

        loader = SourceFileLoader(MAIN, address.path)
        spec = spec_from_loader(MAIN, loader, origin=address.path)
        assert spec is not None, "it was given its loader"
        module = module_from_spec(spec)
        module.__file__ = address.path
        sys.modules[MAIN] = module
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[MAIN]
            raise
    return sys.modules[MAIN]
