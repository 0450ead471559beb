"""The agent that a command runs: from a file of the user's, or from options.

Only files that the user names on the command line are ever executed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import sys
from types import ModuleType
from typing import Any, TypeVar

from windlass.events.errors import UsageError
from windlass.events.specs import Policy
from windlass.runtime.agent import Agent, Budget
from windlass.runtime.policy import ALLOW_ALL, READ_ONLY

from .commands import UNNAMED

T = TypeVar("T")
NAME = UNNAMED
PRESETS = {"standard": Policy(), "allow-all": ALLOW_ALL, "read-only": READ_ONLY}
SCHEMA_BYTES_MAX = 1_000_000


def agent_of(args: argparse.Namespace, before: Agent | None = None) -> Agent:
    """The agent that the options mean: of a file, else as they described it `before`, else a new one; with what they
    say now. Raises `UsageError` where they mean none."""
    changes: dict[str, Any] = {}
    if args.model is not None:
        changes["model"] = args.model
    if args.instructions is not None:
        changes["instructions"] = instructions_of(args.instructions)
    if args.policy is not None:
        changes["policy"] = policy_of(args.policy)
    if args.budget_usd is not None or args.budget_turns is not None:
        changes["budget"] = Budget(usd=args.budget_usd, turns=args.budget_turns)
    if args.output_schema is not None:
        changes["output"] = schema_of(args.output_schema)
    found = from_file(args.agent, Agent, "agent") if args.agent is not None else before or Agent(NAME)
    tools = [tool_of(name) for name in args.tool if name not in found.tools]
    if tools:
        changes["tools"] = [*found.tools, *tools]
    if not changes:
        return found
    from dataclasses import replace

    return replace(found, **changes)


def instructions_of(text: str) -> str:
    return read_text(text[1:]) if text.startswith("@") else text


def policy_of(name: str) -> Policy:
    if name in PRESETS:
        return PRESETS[name]
    if ":" not in name:
        raise UsageError(f"no policy {name!r}: write {', '.join(PRESETS)} or FILE.py:NAME")
    return from_file(name, Policy, "policy")


def tool_of(name: str) -> Any:
    """A tool by name: built in, or out of a file."""
    if ":" in name:
        path, _, attribute = name.rpartition(":")
        found = getattr(module_of(path), attribute, None)
        if not callable(found):
            raise UsageError(f"--tool {name!r}: {path} has no function {attribute!r}")
        return found
    from windlass.runtime.builtin import resolved

    return resolved([name])[0]


def schema_of(path: str) -> dict[str, Any]:
    try:
        schema = json.loads(read_text(path))
    except ValueError as error:
        raise UsageError(f"--output-schema {path!r} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise UsageError(f"--output-schema {path!r} is not a JSON Schema: it must be an object")
    return schema


def read_text(path: str) -> str:
    try:
        data = pathlib.Path(path).read_bytes()
        if len(data) > SCHEMA_BYTES_MAX:
            raise UsageError(f"{path!r} is larger than {SCHEMA_BYTES_MAX:,} bytes")
        return data.decode()
    except OSError as error:
        raise UsageError(f"cannot read {path!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path!r} is not text in UTF-8") from None


def from_file(place: str, kind: type[T], word: str) -> T:
    """A value out of a file: `FILE.py:NAME`, or `FILE.py` where it holds only one. An agent may be named as it names
    itself, which is all that its sessions know of it."""
    path, colon, name = place.rpartition(":")
    if not colon:
        path, name = place, ""
    module = module_of(path)
    there = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name in there:
        return there[name]
    if not there:
        raise UsageError(f"{path} has no {word} in it: give a variable the value windlass.{kind.__name__}(...)")
    listed = ", ".join(f"{path}:{key}" for key in there)
    if name:
        called = [value for value in there.values() if getattr(value, "name", None) == name]
        if len(called) == 1:
            return called[0]
        raise UsageError(f"{path} has no {word} {name!r}: there is {listed}")
    if len(there) > 1:
        raise UsageError(f"{path} has {len(there)} {word}s, say which: {listed}")
    return next(iter(there.values()))


def module_of(path: str) -> ModuleType:
    """A file as a module. What is wrong with it is said with its line."""
    file = pathlib.Path(path)
    if not file.is_file():
        raise UsageError(f"there is no file {path!r}: write FILE.py:NAME")
    name = f"windlass_cli_{file.stem}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", "") == str(file.resolve()):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path!r} is no Python file: write FILE.py:NAME")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own file; its line is what they need
        del sys.modules[name]
        raise UsageError(f"{path} cannot be loaded: {where(error, file)}{type(error).__name__}: {error}") from error
    return module


def where(error: BaseException, file: pathlib.Path) -> str:
    """The line of a file at which an error came up."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    line, found = error.__traceback__, 0
    while line is not None:
        if line.tb_frame.f_code.co_filename == str(file.resolve()):
            found = line.tb_lineno
        line = line.tb_next
    return f"line {found}: " if found else ""
