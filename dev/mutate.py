"""Mutation testing of one folder: changes the code in one small way at a time, and sees whether its tests notice.

    python dev/mutate.py src/windlass/kernel --tests tests/kernel --sample 60 --seed 7
    python dev/mutate.py src/windlass/runtime/drive --tests tests/runtime tests/tools --jobs 2 --json found.json

Each mutant runs in a copy of the source, so the tree is never touched. A mutant that no test notices is shown with its
line: either a promise has no test, or the change makes no difference and the code could be simpler. Ends with the share
that was noticed, and with 1 if that is below `--at-least`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

ROOT = pathlib.Path(__file__).parent.parent
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
Change = Callable[[ast.AST], ast.AST]
Fate = Literal["noticed", "survived", "hung", "no tests ran"]


class Mutant(NamedTuple):
    """One change: where, what stands there now, and the whole file with the change."""

    path: pathlib.Path
    line: int
    before: str
    after: str
    source: str


class Outcome(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    fate: Fate


# --- the changes ---


def changes(node: ast.AST) -> Iterator[Change]:
    """The ways in which one node can be changed. Each takes a copy of the node and gives what stands in its place."""
    match node:
        case ast.Compare(ops=[comparison]) if type(comparison) in COMPARISONS:
            yield lambda n: _with(n, ops=[COMPARISONS[type(comparison)]()])
        case ast.BoolOp(op=ast.And()):
            yield lambda n: _with(n, op=ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield lambda n: _with(n, op=ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield lambda n: copy.deepcopy(operand)
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield lambda n: _with(n, op=OPERATORS[type(op)]())
        case ast.Constant(value=bool(flag)):
            yield lambda n: _with(n, value=not flag)
        case ast.Constant(value=int(number)):
            yield lambda n: _with(n, value=number + 1)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield lambda n: _with(n, test=ast.UnaryOp(op=ast.Not(), operand=copy.deepcopy(test)))
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield lambda n: _with(n, value=ast.Constant(value=None))
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield()) | ast.AugAssign() | ast.Raise():
            yield lambda n: ast.Pass()
        case ast.Break():
            yield lambda n: ast.Continue()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


class _Replace(ast.NodeTransformer):
    """Puts something else in place of one node."""

    def __init__(self, target: ast.AST, change: Change) -> None:
        self._target = target
        self._change = change

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._target:
            return self._change(copy.deepcopy(node))
        self.generic_visit(node)
        return node


def mutants_of(path: pathlib.Path) -> Iterator[Callable[[], Mutant]]:
    """Every change to a file, each made only when it is asked for. Annotations and texts are left alone: they change
    what people read, not what happens."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    skipped = set(_annotations(tree))
    for at, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        for which, _ in enumerate(changes(node)):
            yield lambda at=at, which=which: _made(path, source, at, which)  # type: ignore[misc]


def _annotations(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            inner = getattr(node, field, None)
            if isinstance(inner, ast.AST):
                yield from (id(each) for each in ast.walk(inner))
        if isinstance(node, ast.ClassDef):
            yield from (id(each) for keyword in node.keywords for each in ast.walk(keyword))


def _made(path: pathlib.Path, source: str, at: int, which: int) -> Mutant:
    tree = ast.parse(source)
    node = list(ast.walk(tree))[at]
    change = list(changes(node))[which]
    before, after = ast.unparse(node), change(copy.deepcopy(node))
    changed = ast.fix_missing_locations(_Replace(node, change).visit(tree))
    line: int = getattr(node, "lineno", 0)
    return Mutant(path, line, _short(before), _short(ast.unparse(after)), ast.unparse(changed))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else line[:89] + "…"


# --- the runs ---


def tried(mutant: Mutant, tests: list[str], timeout_s: float) -> Outcome:
    """Runs the tests over a copy of the source with the change in it."""
    with tempfile.TemporaryDirectory(prefix="windlass-mutant-") as folder:
        target = pathlib.Path(folder) / "src"
        shutil.copytree(ROOT / "src", target, copy_function=os.link, ignore=shutil.ignore_patterns("__pycache__"))
        file = target / mutant.path.resolve().relative_to(ROOT / "src")
        file.unlink()
        file.write_text(mutant.source, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-m",
            "not long",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        env = {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.Popen(
            [*command, *tests],
            cwd=ROOT,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = run.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return Outcome(mutant, "hung")
        finally:
            try:
                os.killpg(run.pid, signal.SIGKILL)  # tests start processes of their own
            except ProcessLookupError:
                pass
            run.wait()
    return Outcome(mutant, "survived" if code == 0 else "no tests ran" if code == 5 else "noticed")


def chosen(folder: pathlib.Path, sample: int, seed: int) -> list[Mutant]:
    """A sample of the mutants of all files below a folder, the same for the same seed."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    every = [(file, index) for file in files for index, _ in enumerate(mutants_of(file))]
    drawn = random.Random(seed).sample(every, min(sample, len(every)))
    print(f"{len(every):,} mutants in {len(files)} files; {len(drawn)} are tried", file=sys.stderr)
    return [next(make for at, make in enumerate(mutants_of(file)) if at == index)() for file, index in drawn]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="what is changed: a folder or a file below src/")
    parser.add_argument("--tests", nargs="+", required=True, help="what must notice: arguments for pytest")
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for the tests of one mutant")
    parser.add_argument("--at-least", type=float, default=0.0, help="the share that must be noticed")
    parser.add_argument("--json", type=pathlib.Path, help="where to write what became of each")
    args = parser.parse_args(argv)
    mutants = chosen(args.folder.resolve(), args.sample, args.seed)
    outcomes = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for outcome in pool.map(lambda one: tried(one, args.tests, args.timeout), mutants):
            outcomes.append(outcome)
            one = outcome.mutant
            if outcome.fate != "noticed":
                place = one.path.relative_to(ROOT)
                print(f"{outcome.fate:9} {place}:{one.line}  {one.before}  ->  {one.after}", flush=True)
    return report(outcomes, args.at_least, args.json)


def report(outcomes: list[Outcome], at_least: float, to: pathlib.Path | None) -> int:
    """Says how many were noticed; a mutant that hangs is noticed by whoever waits."""
    noticed = sum(outcome.fate in ("noticed", "hung") for outcome in outcomes)
    share = noticed / len(outcomes) if outcomes else 1.0
    print(f"{noticed} of {len(outcomes)} noticed ({share:.0%})")
    if to is not None:
        rows = [
            {"path": str(m.path.relative_to(ROOT)), "line": m.line, "before": m.before, "after": m.after, "fate": fate}
            for m, fate in outcomes
        ]
        to.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if share >= at_least else 1


if __name__ == "__main__":
    sys.exit(main())
