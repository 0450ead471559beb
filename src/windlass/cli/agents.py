"""The agent that a command runs: from a file of the user's, or from options.

Only files that the user names on the command line are ever executed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import os
import pathlib
import sys
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from windlass.events.errors import UsageError
from windlass.events.values.policy import Policy
from windlass.events.values.setup import Limits, SessionOptions
from windlass.runtime.api.agent import Agent, Budget
from windlass.runtime.api.policy import PRESETS
from windlass.runtime.bind.policy_files import load_policy

from . import coding_agent
from .shell_lines import UNNAMED

T = TypeVar("T")
NAME = UNNAMED
PUBLIC = {"Flow": "flows.", "Machine": "machines."}
"""The modules of the package that classes are in, of those that it does not name itself."""
SCHEMA_BYTES_MAX = 1_000_000


def agent_of(args: argparse.Namespace, options: SessionOptions) -> Agent:
    """The agent that is named: of a file, else one that options alone describe; with the tools of files. Its model is
    the one that its session has, so that no other needs to be there. Raises `UsageError` if it means nothing."""
    agent = from_file(args.agent, Agent, "agent") if args.agent is not None else Agent(NAME)
    changes: dict[str, Any] = {}
    if options.model is not None:
        changes["model"] = options.model
    if tools := [tool_of(name) for name in args.tool if ":" in name]:
        changes["tools"] = [*agent.tools, *tools]
    if files := getattr(args, "mcp", None):
        changes["mcp"] = with_servers(agent, files)
    return dataclasses.replace(agent, **changes) if changes else agent


def with_servers(agent: Agent, files: list[str]) -> Any:
    """The MCP servers of an agent and those of files. Raises `UsageError` for a file that cannot be read."""
    from windlass.mcp.config import Mcp, servers_of_file

    own = agent.mcp_config or Mcp()
    return msgspec.structs.replace(own, servers=(*own.servers, *(s for file in files for s in servers_of_file(file))))


def options_of(args: argparse.Namespace, kept: SessionOptions) -> SessionOptions:
    """What the options say that the session has otherwise than its agent, given what it had. Raises `UsageError` if
    they mean nothing."""
    named = [*(coding_agent.TOOLS if args.tools else ()), *(name for name in args.tool if ":" not in name)]
    policy = policy_of(args.policy) if args.policy is not None else None
    instructions = instructions_of(args.instructions) if args.instructions is not None else None
    if args.tools:
        policy = policy or coding_agent.coding_policy()
        instructions = instructions or (coding_agent.INSTRUCTIONS if args.agent is None else None)
    return SessionOptions(
        model=args.model,
        policy=policy,
        run_limits=limits_of(args),
        tools=tuple(tool_of(name).name for name in dict.fromkeys(named)),
        instructions=instructions,
        output_schema=schema_of(args.output_schema) if args.output_schema is not None else None,
        quarantine=args.quarantine,
        sandbox=sandbox_of(args, kept),
    )


def sandbox_of(args: argparse.Namespace, kept: SessionOptions) -> str | None:
    """Where commands run from now on: as said, else in the best sandbox that works here if a set of tools wants one
    and the session has none; None leaves what it has. Raises `UsageError` for one that cannot be used."""
    named: str | None = getattr(args, "sandbox", None)
    if named is None and args.tools and kept.sandbox is None:
        named = "auto"
    if named is None:
        return None
    from windlass.tools.sandboxes.choice import resolved

    return resolved(named)


def limits_of(args: argparse.Namespace) -> Limits | None:
    """The limits that the options name; None if they name none. Raises `UsageError` for one that is none."""
    if args.budget_turns is not None and args.budget_turns < 1:
        raise UsageError(
            f"--budget-turns {args.budget_turns}: give at least 1; without it the settings say how many (50)"
        )
    if args.budget_usd is not None and not 0 <= args.budget_usd < math.inf:
        raise UsageError(
            f"--budget-usd {args.budget_usd:g}: give an amount of at least 0, or leave it out for no limit"
        )
    if args.budget_usd is None and args.budget_turns is None:
        return None
    return Budget(usd=args.budget_usd, turns=args.budget_turns).limits()


def instructions_of(text: str) -> str:
    return read_text(text[1:]) if text.startswith("@") else text


def policy_of(name: str) -> Policy:
    if name in PRESETS:
        return PRESETS[name]
    if name.lower().endswith((".toml", ".yaml", ".yml")):
        return load_policy(name)
    if ":" not in name:
        raise UsageError(f"no policy {name!r}: write {', '.join(PRESETS)}, FILE.toml, FILE.yaml or FILE.py:NAME")
    return from_file(name, Policy, "policy")


def tool_of(name: str) -> Any:
    """A tool by name: built in, or out of a file."""
    if ":" in name:
        path, _, attribute = name.rpartition(":")
        function = getattr(module_of(path), attribute, None)
        if not callable(function):
            raise UsageError(f"--tool {name!r}: {path} has no function {attribute!r}")
        return function
    from windlass.runtime.bind.builtin_tools import resolved

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
    """A value out of a file: `FILE.py:NAME`, or `FILE.py` if it holds only one. An agent may be named as it names
    itself, which is all that its sessions know of it."""
    path, colon, name = place.rpartition(":")
    if not colon:
        path, name = place, ""
    module = module_of(path)
    there = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name in there:
        return there[name]
    if not there:
        raise UsageError(f"{path} has no {word} in it: give a variable the value {_public(kind)}(...)")
    listed = ", ".join(f"{path}:{key}" for key in there)
    if name:
        called = [value for value in there.values() if getattr(value, "name", None) == name]
        if len(called) == 1:
            return called[0]
        raise UsageError(f"{path} has no {word} {name!r}: there is {listed}")
    if len(there) > 1:
        raise UsageError(f"{path} has {len(there)} {word}s, say which: {listed}")
    return next(iter(there.values()))


def _public(kind: type) -> str:
    """What a program calls a class of ours."""
    return f"windlass.{PUBLIC.get(kind.__name__, '')}{kind.__name__}"


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
        raise UsageError(f"{path} cannot be loaded: {line_of(error, file)}{type(error).__name__}: {error}") from error
    return module


def line_of(error: BaseException, file: pathlib.Path) -> str:
    """The line of a file at which an error came up, or of the module beside or beneath it at which it did."""
    own, place = file.resolve(), (file.resolve(), 0)
    frame = error.__traceback__
    while frame is not None:
        path = pathlib.Path(frame.tb_frame.f_code.co_filename)
        if path.is_relative_to(own.parent) and "site-packages" not in path.parts:
            place = (path, frame.tb_lineno)
        frame = frame.tb_next
    if isinstance(error, SyntaxError):
        place = (pathlib.Path(error.filename or own).resolve(), error.lineno or 0)
    path, number = place
    if not number:
        return ""
    shown = f"{os.path.relpath(path, own.parent)} " if path != own else ""
    return f"{shown}line {number}: "
