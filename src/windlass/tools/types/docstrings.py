"""Reads docstrings in Google, NumPy and Sphinx style: what the thing is, and what each parameter means.

It owns no types and never fails: what it does not understand stays part of the description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import NamedTuple

PARAMETER_SECTIONS = frozenset(
    {"args", "arguments", "params", "parameters", "keyword args", "keyword arguments", "other parameters", "attributes"}
)
"""Sections that describe parameters, or the fields of a class."""
DROPPED_SECTIONS = frozenset({"raises", "raise", "warns"})
"""Sections that are of no use to a model."""
KEPT_SECTIONS = frozenset({"returns", "return", "yields", "yield", "note", "notes", "example", "examples", "warning"})

_GOOGLE_HEADER = r"^(?P<name>[A-Za-z][A-Za-z ]*):\s*$"
_GOOGLE_ENTRY = r"^\*{0,2}(?P<name>\w+)\s*(?:\((?P<type>[^)]*(?:\([^)]*\)[^)]*)*)\))?\s*:\s*(?P<text>.*)$"
_NUMPY_RULE = r"^\s*-{3,}\s*$"
_NUMPY_ENTRY = r"^(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_SPHINX_FIELD = r"^:(?P<kind>\w+)(?:\s+(?P<about>[^:]+))?:\s*(?P<text>.*)$"
_SPHINX_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "ivar", "cvar", "var"})
_SPHINX_DROPPED = frozenset({"type", "rtype", "raises", "raise", "except", "exception", "vartype", "meta"})


_Reader = Callable[[list[str], int, list[str], dict[str, str]], int]
"""Reads the section at a line: adds to what is kept and to the parameters, returns the line after it."""


class Doc(NamedTuple):
    """A docstring taken apart."""

    description: str = ""
    parameters: dict[str, str] = {}


def read(docstring: str | None) -> Doc:
    """The description without its parameter sections, and the text for each parameter."""
    if not docstring or not docstring.strip():
        return Doc("", {})
    lines = inspect.cleandoc(docstring).splitlines()
    parameters: dict[str, str] = {}
    kept: list[str] = []
    at = 0
    while at < len(lines):
        reader = _section_at(lines, at)
        if reader is None:
            kept.append(lines[at])
            at += 1
        else:
            at = reader(lines, at, kept, parameters)
    return Doc(_tidy(kept), parameters)


def _section_at(lines: list[str], at: int) -> _Reader | None:
    line = lines[at]
    if _is_numpy_header(lines, at):
        return _read_numpy
    header = re.match(_GOOGLE_HEADER, line)
    if header and header["name"].lower() in PARAMETER_SECTIONS | DROPPED_SECTIONS and _indented(lines, at + 1):
        return _read_google
    field = re.match(_SPHINX_FIELD, line)
    if field and field["kind"] in _SPHINX_PARAMETERS | _SPHINX_DROPPED | {"return", "returns"}:
        return _read_sphinx
    return None


def _read_google(lines: list[str], at: int, kept: list[str], parameters: dict[str, str]) -> int:
    is_parameters = lines[at].strip().rstrip(":").lower() in PARAMETER_SECTIONS
    at += 1
    margin: int | None = None
    name = ""
    while at < len(lines) and (not lines[at].strip() or lines[at].startswith((" ", "\t"))):
        text = lines[at].strip()
        indent = len(lines[at]) - len(lines[at].lstrip())
        at += 1
        if not text or not is_parameters:
            continue
        margin = indent if margin is None else margin
        entry = re.match(_GOOGLE_ENTRY, text) if indent <= margin else None
        if entry:
            name = entry["name"]
            parameters[name] = entry["text"].strip()
        elif name:
            parameters[name] = _joined(parameters[name], text)
    return at


def _read_numpy(lines: list[str], at: int, kept: list[str], parameters: dict[str, str]) -> int:
    title = lines[at].strip().lower()
    end = at + 2
    while end < len(lines) and not _is_numpy_header(lines, end):
        end += 1
    if title in PARAMETER_SECTIONS:
        names: list[str] = []
        for line in lines[at + 2 : end]:
            entry = re.match(_NUMPY_ENTRY, line)
            if entry:
                names = [name.strip(" *") for name in entry["names"].split(",")]
                parameters.update(dict.fromkeys(names, ""))
            elif line.strip():
                parameters.update({name: _joined(parameters[name], line.strip()) for name in names})
    elif title not in DROPPED_SECTIONS:
        kept += [f"{lines[at].strip()}:", *lines[at + 2 : end]]
    return end


def _read_sphinx(lines: list[str], at: int, kept: list[str], parameters: dict[str, str]) -> int:
    field = re.match(_SPHINX_FIELD, lines[at])
    assert field is not None, "only called where the field matched"
    text = field["text"].strip()
    at += 1
    while at < len(lines) and lines[at].startswith((" ", "\t")):
        text = _joined(text, lines[at].strip())
        at += 1
    if field["kind"] in _SPHINX_PARAMETERS and field["about"]:
        parameters[field["about"].split()[-1].lstrip("*")] = text
    elif field["kind"] in ("return", "returns"):
        kept.append(f"Returns: {text}")
    return at


def _is_numpy_header(lines: list[str], at: int) -> bool:
    if at + 1 >= len(lines) or not re.match(_NUMPY_RULE, lines[at + 1]):
        return False
    return lines[at].strip().lower() in PARAMETER_SECTIONS | DROPPED_SECTIONS | KEPT_SECTIONS


def _indented(lines: list[str], at: int) -> bool:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at < len(lines) and lines[at].startswith((" ", "\t"))


def _joined(first: str, second: str) -> str:
    return f"{first} {second}" if first else second


def _tidy(lines: list[str]) -> str:
    text = "\n".join(line.rstrip() for line in lines).strip()
    return re.sub(r"\n{3,}", "\n\n", text)
