"""The rules about the shape of the code that a machine can hold; each complaint names the file and the fix.

Every rule is a function from a module to complaints, and is itself tried on a module that breaks it.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest

import windlass

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "windlass"

LEAVES = {"kernel", "store", "models", "tools", "skills", "memory", "knowledge"}
BEHIND_RUNTIME = {"events", *LEAVES, "mcp"}
ARROWS: dict[str, set[str]] = {
    "events": set(),
    **{leaf: {"events"} for leaf in LEAVES},
    "mcp": {"events", "tools"},
    "runtime": BEHIND_RUNTIME,
    "protocol": BEHIND_RUNTIME | {"runtime"},
    "server": BEHIND_RUNTIME | {"runtime", "protocol"},
    "mcp_server": BEHIND_RUNTIME | {"runtime", "protocol", "server"},
    # An adapter over HTTP adds routes to the server; the server knows none of them (decision 054).
    "adapters": BEHIND_RUNTIME | {"runtime", "protocol", "server", "windlass"},
    # The package itself (its public names) stands before all of these and behind the faces.
    "windlass": BEHIND_RUNTIME | {"runtime", "protocol", "server"},
    **{
        face: BEHIND_RUNTIME | {"runtime", "protocol", "server", "mcp_server", "adapters", "windlass"}
        for face in ("cli", "tui", "console")
    },
}
"""What each part may import besides itself. `testing` is missing because it may import anything."""

PURE = {
    *("__future__", "abc", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses"),
    *("decimal", "difflib", "enum", "fnmatch", "fractions", "functools", "graphlib", "hashlib", "heapq", "hmac"),
    *("itertools", "json", "keyword", "math", "numbers", "operator", "re", "reprlib", "string", "struct", "textwrap"),
    *("types", "typing", "unicodedata", "zlib", "msgspec", "windlass"),
}
"""What `kernel/` may import; of `windlass`, the arrows say what. Everything else has a clock, chance or a machine in it."""

FORBIDDEN_IN_KERNEL = [
    *("time", "random", "asyncio", "os", "uuid", "datetime", "socket", "threading", "subprocess", "pathlib", "io"),
    *("secrets", "sys", "aiohttp", "apsw"),
]
"""The worst of what is not in `PURE`, so that nobody adds it there by habit."""

IMPURE_CALLS = {"open", "input", "print", "id", "hash", "breakpoint", "globals"}
"""Built-ins that depend on the process: the `hash` of a text, for one, differs with PYTHONHASHSEED."""

EXECUTING_FORMATS = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "joblib"}
EXECUTING_CALLS = {"eval", "exec", "compile"}
EXECUTING_YAML = {"load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all"}

EMPTY_NAMES = re.compile(r"utils?|helpers?|common|managers?|misc")

METHODS_MAX = 30
MANY_METHODS = {"windlass.runtime.api.session.Session": "what a user does with a session, in one place"}
"""Classes that may have more, and why."""

MODULES_MAX = 20

LINES_MAX = 600
LINES_MOST = {
    "windlass.runtime.api.runtime": 250,  # the door, which only leads to others
    "windlass.runtime.api.session": 720,  # what a user does with a session, in one place
}
"""Modules that have a bound of their own, and why."""

ING_NAMES = {
    "testing": "the folder of doubles and kits; every library calls it so",
}
"""Modules and folders that may be named by what is done there, and why."""

ALIAS_MIN = 3

HEAVY = {
    *("aiohttp", "apsw", "jsonschema_rs", "xllamacpp", "pydantic", "keyring", "openai", "anthropic", "google"),
    *("httpx", "httpx2", "requests", "urllib3", "anyio", "yarl", "textual", "mcp", "opentelemetry", "pytest"),
    *("prompt_toolkit", "rich"),
    *("hypothesis", "asyncio", "concurrent", "ctypes", "email", "http", "multiprocessing", "socket", "sqlite3"),
    *("ssl", "subprocess", "unittest", "xml"),
}


@dataclasses.dataclass(frozen=True)
class Module:
    """One source file of the package, by the name under which it is imported."""

    name: str
    path: pathlib.PurePath
    tree: ast.Module

    @property
    def part(self) -> str:
        return part_of(self.name)

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def part_of(name: str) -> str:
    """The folder a module belongs to; what lies directly in the package belongs to `windlass` itself."""
    piece = name.split(".")[1] if "." in name else "windlass"
    return piece if piece in {*ARROWS, "testing"} or (PACKAGE / piece).is_dir() else "windlass"


@functools.cache
def modules() -> tuple[Module, ...]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple(module(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in paths)


def module(path: str, source: str) -> Module:
    pieces = pathlib.PurePath(path).with_suffix("").parts[1:]
    name = ".".join(pieces[:-1] if pieces[-1] == "__init__" else pieces)
    return Module(name=name, path=pathlib.PurePath(path), tree=ast.parse(source))


@dataclasses.dataclass(frozen=True)
class Import:
    """One module imported by one statement (or by `import_module("…")`), at the top or on first use."""

    target: str
    node: ast.AST
    on_first_use: bool


def imports(module: Module) -> Iterator[Import]:
    functions = [node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    deferred = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(module.tree):
        for target in _targets(module, node):
            yield Import(target, node, on_first_use=id(node) in deferred)


def _targets(module: Module, node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=source, names=names, level=level):
            base = ".".join(filter(None, [_package(module, level), source]))
            return [f"{base}.{alias.name}" for alias in names] if base == "windlass" else [base]
        case ast.Call(args=[ast.Constant(value=str(target)), *_]) if _called(node) in ("import_module", "__import__"):
            return [target]
    return []


def _package(module: Module, level: int) -> str:
    """What the dots of a relative import stand for."""
    if level == 0:
        return ""
    pieces = module.name.split(".")
    drop = level - 1 if module.path.name == "__init__.py" else level
    return ".".join(pieces[: len(pieces) - drop])


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


# --- the rules ---------------------------------------------------------------------------------------------------


def arrows_point_one_way(module: Module) -> Iterator[str]:
    if module.part == "testing":
        return
    if module.part not in ARROWS:
        yield f"{module.path}: {module.part!r} is not a part: name its arrows in ARROWS, and say why in docs/decisions/"
        return
    allowed = ARROWS[module.part] | {module.part}
    for found in imports(module):
        target = part_of(found.target)
        if found.target.split(".")[0] != "windlass" or target in allowed:
            continue
        if target == "testing" and module.part == "cli":
            if not found.on_first_use:
                yield f"{module.at(found.node)}: imports {found.target} at the top: import it inside the verb that runs it"
            continue
        yield (
            f"{module.at(found.node)}: {module.part} must not import {found.target}; it may import "
            f"{', '.join(sorted(ARROWS[module.part])) or 'nothing of ours'}: move what it needs there, or pass it in"
        )


def kernel_is_pure(module: Module) -> Iterator[str]:
    if module.part != "kernel":
        return
    for found in imports(module):
        root = found.target.split(".")[0]
        if root not in PURE:
            yield f"{module.at(found.node)}: kernel must not import {root}: what it would ask there arrives inside the fact"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield f"{module.at(node)}: kernel must not call {node.func.id}(): its answer is not a function of the log"
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield f"{module.at(node)}: kernel is synchronous: let runtime await, and feed the outcome back as a fact"


def formats_are_plain_data(module: Module) -> Iterator[str]:
    for found in imports(module):
        if found.target.split(".")[0] in EXECUTING_FORMATS:
            yield f"{module.at(found.node)}: {found.target} runs what it reads: use msgspec"
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in EXECUTING_CALLS:
                yield f"{module.at(node)}: {name}() runs text as code: parse it into data"
            case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name in EXECUTING_YAML:
                yield f"{module.at(node)}: yaml.{name} may build any object: use yaml.safe_load with caps"


def opens_with_a_docstring(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield f"{module.path}:1: no docstring: say in one to three lines what it owns and what it must never do"


def name_says_what_is_inside(module: Module) -> Iterator[str]:
    for piece in module.name.split("."):
        if EMPTY_NAMES.fullmatch(piece.strip("_")):
            yield f"{module.path}: {piece!r} says nothing: name it after the noun it owns"


def imports_name_what_they_take(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield f"{module.at(node)}: import * hides where names come from: list them"


def classes_stay_small(module: Module) -> Iterator[str]:
    for node in classes(module):
        methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
        if methods > METHODS_MAX and f"{module.name}.{node.name}" not in MANY_METHODS:
            yield f"{module.at(node)}: {node.name} has {methods} methods, more than {METHODS_MAX}: find the nouns in it"


def classes(module: Module) -> list[ast.ClassDef]:
    return [node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]


def bases_carry_no_state(module: Module) -> Iterator[str]:
    for node in classes(module):
        for base in bases(module, node):
            home, parent = base
            if has_state(parent) and not is_value_or_error(home, parent):
                yield f"{module.at(node)}: {node.name} inherits the state of {parent.name}: hand it what it needs instead"


def bases(module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
    """The classes of ours that a class inherits from directly, each with the module that defines it."""
    for name in filter(None, map(base_name, node.bases)):
        found = defined(module, name)
        if found is not None and found[1] is not node:
            yield found


def base_name(base: ast.expr) -> str:
    match base:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(attr=name):
            return name
    return ""


def defined(module: Module, name: str) -> tuple[Module, ast.ClassDef] | None:
    """Where a name of a module is defined as a class: there, or in the module of ours from which it is imported."""
    for known in classes(module):
        if known.name == name:
            return module, known
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                source = ".".join(filter(None, [_package(module, node.level), node.module]))
                if (alias.asname or alias.name) == name and source in by_name() and by_name()[source] is not module:
                    return defined(by_name()[source], alias.name)
    return None


@functools.cache
def by_name() -> dict[str, Module]:
    return {module.name: module for module in modules()}


def has_state(node: ast.ClassDef) -> bool:
    """Whether its methods set attributes of the object."""
    return any(
        isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and base_name(part.value) == "self"
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ast.walk(method)
    )


def is_value_or_error(module: Module, node: ast.ClassDef) -> bool:
    """Protocols, values and exceptions may be inherited from: they stand for a kind, not for a storey of an object."""
    for name in map(base_name, node.bases):
        known = getattr(builtins, name, None)
        if name in ("Protocol", "Struct", "TypedDict") or (
            isinstance(known, type) and issubclass(known, BaseException)
        ):
            return True
    return any(is_value_or_error(home, parent) for home, parent in bases(module, node))


def files_stay_short(module: Module) -> Iterator[str]:
    most = LINES_MOST.get(module.name, LINES_MAX)
    lines = max((node.end_lineno or 0 for node in module.tree.body), default=0)
    if lines >= most:
        yield f"{module.path}: {lines} lines, not under {most}: find the second noun in it, and give it a file"


def runtime_is_composed(module: Module) -> Iterator[str]:
    if module.part == "runtime":
        for node in classes(module):
            for home, parent in bases(module, node):
                if not is_value_or_error(home, parent):
                    yield f"{module.at(node)}: {node.name} inherits from {parent.name}: compose it of what it needs"


def names_are_nouns(module: Module) -> Iterator[str]:
    for piece in module.name.split(".")[1:]:
        if piece.endswith("ing") and piece not in ING_NAMES:
            yield f"{module.path}: {piece!r} says what is done, not what is there: name it after the noun it owns"


def modules_keep_their_names(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if alias.asname is not None and len(alias.asname.strip("_")) < ALIAS_MIN:
                    yield f"{module.at(node)}: {alias.asname!r} for {alias.name} is a riddle: use the name, or a word"


RULES: list[Callable[[Module], Iterator[str]]] = [
    arrows_point_one_way,
    kernel_is_pure,
    formats_are_plain_data,
    opens_with_a_docstring,
    name_says_what_is_inside,
    imports_name_what_they_take,
    classes_stay_small,
    bases_carry_no_state,
    files_stay_short,
    runtime_is_composed,
    names_are_nouns,
    modules_keep_their_names,
]


STATEFUL = "class A:\n    def __init__(self): self.x = 1"


def full_folders(found: Iterable[Module]) -> list[str]:
    """Complaints about folders of the package with more modules than one looks through."""
    counts = Counter(module.path.parent for module in found if module.path.name != "__init__.py")
    return [
        f"{folder}: {count} modules, more than {MODULES_MAX}: find the rooms in it"
        for folder, count in sorted(counts.items())
        if count > MODULES_MAX
    ]


def test_no_folder_is_full():
    assert full_folders(modules()) == []


def test_a_full_folder_is_named():
    files = [module(f"src/windlass/store/m{number}.py", "") for number in range(21)]
    files.append(module("src/windlass/store/__init__.py", ""))
    assert full_folders(files[1:]) == []
    assert len(full_folders(files)) == 1


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule):
    found = modules()
    assert len(found) > 10, "the walk over the package finds nothing"
    complaints = [complaint for module in found for complaint in rule(module)]
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        (arrows_point_one_way, "events/a.py", "import windlass.kernel.state"),
        (arrows_point_one_way, "events/a.py", "from ..kernel import state"),
        (arrows_point_one_way, "events/__init__.py", "from ..kernel import state"),
        (arrows_point_one_way, "kernel/a.py", "from windlass import store"),
        (arrows_point_one_way, "kernel/a.py", "import windlass"),
        (arrows_point_one_way, "models/a.py", "def f():\n    from windlass.tools import x"),
        (arrows_point_one_way, "store/a.py", "import_module('windlass.kernel')"),
        (arrows_point_one_way, "runtime/a.py", "from windlass.cli import main"),
        (arrows_point_one_way, "runtime/a.py", "def f():\n    import windlass.testing"),
        (arrows_point_one_way, "cli/a.py", "import windlass.testing"),
        (arrows_point_one_way, "__init__.py", "from .testing import ScriptedModel"),
        (arrows_point_one_way, "__init__.py", "from . import testing"),
        *((kernel_is_pure, "kernel/a.py", f"import {name}") for name in FORBIDDEN_IN_KERNEL),
        (kernel_is_pure, "kernel/a.py", "def f():\n    from os import path"),
        (kernel_is_pure, "kernel/a.py", "import concurrent.futures"),
        (kernel_is_pure, "kernel/a.py", "key = hash('text')"),
        (kernel_is_pure, "kernel/a.py", "async def decide(): ..."),
        (formats_are_plain_data, "store/a.py", "from pickle import loads"),
        (formats_are_plain_data, "store/a.py", "eval('1')"),
        (formats_are_plain_data, "store/a.py", "yaml.load(text)"),
        (opens_with_a_docstring, "store/a.py", "x = 1"),
        (name_says_what_is_inside, "store/utils.py", ""),
        (name_says_what_is_inside, "helpers/a.py", ""),
        (name_says_what_is_inside, "store/_common.py", ""),
        (imports_name_what_they_take, "store/a.py", "from windlass.events import *"),
        (classes_stay_small, "store/a.py", "class A:\n" + "".join(f"    def f{n}(self): ...\n" for n in range(31))),
        (classes_stay_small, "store/a.py", "class Session:\n" + "    async def f(self): ...\n" * 31),
        (bases_carry_no_state, "store/a.py", f"{STATEFUL}\nclass B(A): ..."),
        (bases_carry_no_state, "store/a.py", f"{STATEFUL}\nclass B(Generic[T], A[int]): ..."),
        (bases_carry_no_state, "cli/a.py", "from windlass.runtime.api.session import Session\nclass B(Session): ..."),
        (files_stay_short, "runtime/api/runtime.py", "\n" * 249 + "x = 1"),
        (files_stay_short, "store/a.py", "\n" * 599 + "x = 1"),
        (runtime_is_composed, "runtime/a.py", "class A: ...\nclass B(A): ..."),
        (names_are_nouns, "runtime/driving.py", ""),
        (names_are_nouns, "runtime/tending/loop.py", ""),
        (modules_keep_their_names, "store/a.py", "from . import state as st"),
        (modules_keep_their_names, "store/a.py", "import windlass.events.tools.calls as c_"),
    ],
)
def test_a_broken_rule_is_named_with_file_and_fix(rule, path, source):
    complaints = list(rule(module(f"src/windlass/{path}", source)))
    assert len(complaints) == 1
    assert complaints[0].startswith(f"src/windlass/{path}:")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("events/a.py", "import time\nfrom .blocks import Text\nfrom . import items"),
        ("kernel/a.py", "import re, msgspec\nfrom collections.abc import Mapping\nfrom windlass.events import blocks"),
        ("kernel/a.py", "import re\npattern = re.compile('a')\nfrom .state import State"),
        (
            "runtime/a.py",
            "import asyncio\nfrom windlass import kernel, store\nfrom windlass.tools.planes.plane import Plane",
        ),
        ("cli/main.py", "def sim():\n    from windlass.testing import simulator"),
        ("testing/a.py", "import windlass\nfrom windlass.cli import main"),
        ("__init__.py", "from .events import Event\nfrom windlass.runtime import drive"),
        ("store/a.py", "yaml.safe_load(text)"),
        ("store/a.py", "class A:\n" + "    def f(self): ...\n" * 30),
        ("store/a.py", f"{STATEFUL.replace('A', 'A(Protocol)', 1)}\nclass B(A): ..."),
        ("store/a.py", f"{STATEFUL.replace('A', 'A(ValueError)', 1)}\nclass B(A): ...\nclass C(B): ..."),
        ("store/a.py", "class A:\n    def f(self): return self.x\nclass B(A): ..."),
        ("runtime/api/runtime.py", "\n" * 240 + "x = 1"),
        ("store/a.py", "\n" * 590 + "x = 1"),
        ("runtime/a.py", "class A(TypedDict): ...\nclass B(A): ..."),
        ("testing/a.py", "import msgspec as spec"),
    ],
)
def test_code_within_the_rules_is_left_alone(path, source):
    candidate = module(f"src/windlass/{path}", f'"""Says what it owns."""\n{source}')
    assert [complaint for rule in RULES for complaint in rule(candidate)] == []


# --- importing does nothing --------------------------------------------------------------------------------------

PROBE = """
import json, os, sys
before = dict(os.environ)
sys.path.append(sys.argv[1])
for name in sys.argv[2:]:
    __import__(name)
print(json.dumps({
    "modules": sorted(sys.modules),
    "threads": len(sys._current_frames()),
    "environment_kept": dict(os.environ) == before,
}))
"""


def import_in_fresh_process(home: pathlib.Path, *names: str, folder: pathlib.Path = PACKAGE.parent) -> set[str]:
    """Import the modules in a new process with an empty home and working folder; returns all modules loaded."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}
    command = [sys.executable, "-I", "-B", "-c", PROBE, str(folder), *names]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "importing prints"
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"importing prints: {lines[:-1]}"
    report = json.loads(lines[0])
    assert report["threads"] == 1, "importing starts a thread: start it on first use"
    assert report["environment_kept"], "importing changes the environment"
    assert list(home.rglob("*")) == [], "importing writes files: write them on first use"
    return set(report["modules"])


@pytest.mark.parametrize("names", [("windlass",), ("windlass.events", "windlass.kernel")])
def test_importing_loads_no_heavy_library(tmp_path, names):
    known = import_in_fresh_process(tmp_path, "msgspec")
    loaded = import_in_fresh_process(tmp_path, *names)
    roots = {name.split(".")[0] for name in loaded - known}
    assert roots & HEAVY == set(), "import these on first use"
    foreign = {root for root in roots if root not in sys.stdlib_module_names}
    assert foreign == {"windlass"}, "only msgspec may be loaded with the package: import the rest on first use"


def test_importing_any_module_does_nothing_but_define_names(tmp_path):
    names = [module.name for module in modules() if not module.name.endswith("__main__")]
    assert set(names) <= import_in_fresh_process(tmp_path, *names)


@pytest.mark.parametrize(
    "source",
    [
        "print('hello')",
        "import sys; print('hello', file=sys.stderr)",
        "import os; os.environ['ADDED'] = '1'",
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import pathlib; pathlib.Path('made').touch()",
        "import pathlib; (pathlib.Path.home() / '.windlass').mkdir()",
    ],
)
def test_a_module_with_a_side_effect_is_noticed(tmp_path, source):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "probed.py").write_text(source, encoding="utf-8")
    with pytest.raises(AssertionError):
        import_in_fresh_process(home, "probed", folder=tmp_path)


# --- the repository ----------------------------------------------------------------------------------------------

TEXT_SUFFIXES = {"", ".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".sh", ".yml", ".yaml", ".html", ".js", ".css"}
SKIPPED_FOLDERS = {".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__"}
MACHINE_PATH = re.compile(r"(?:(?<![\w./-])|file://)/(?:root|work)\b")


def repository_texts() -> Iterator[tuple[pathlib.Path, str]]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.suffix in TEXT_SUFFIXES and name != ".git":  # the folder of a worktree names its repository
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8", errors="replace")


def test_no_file_names_a_path_of_the_machine_it_was_written_on():
    found = [
        f"{path}:{number}: {line.strip()[:100]}: make it relative, or take it as an argument"
        for path, text in repository_texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_version_is_said_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = getattr(windlass, "__version__", project["version"])
    assert said == project["version"], "windlass.__version__ and pyproject.toml differ: change both together"
