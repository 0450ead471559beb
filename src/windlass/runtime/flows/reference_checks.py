"""What nodes say of each other, held against what those give: references in texts, fields in conditions, schemas."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.events.errors import UsageError
from windlass.events.values.graphs import INPUT, FlowNode

from .references import ITEM, PREVIOUS, named_in, texts_in

OUTPUT = "output"
"""What the condition of a phase knows its output by."""
SCALARS = ("string", "number", "integer", "boolean", "null")
REDUCED = {"concat": {"type": "string"}, "dedupe_lines": {"type": "string"}, "count": {"type": "integer"}}
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
FIELD = re.compile(r"(?<![\w.])args\s*\.\s*([A-Za-z_]\w*)((?:\s*\.\s*[A-Za-z_]\w*(?!\s*\(|\w))*)")
"""`args.name.field` in a condition; what is called is no field."""


def given_by(node: FlowNode | None) -> Any:
    """The schema of what a node gives, as far as that is known before it has."""
    from .kinds.spawn import VERDICT

    if node is None or node.output is not None:
        return node.output if node is not None else None
    if node.kind == "verify":
        return VERDICT
    if node.kind == "classify":
        return {"type": "string"}
    return REDUCED.get(node.reducer) if node.kind == "reduce" else None


def reference_problems(node: FlowNode, nodes: Mapping[str, FlowNode]) -> Iterator[str]:
    """Names and fields that its texts speak of and that are not there."""
    known = {INPUT, *node.needs, *node.optional}
    known |= {ITEM} if node.kind == "map" else {PREVIOUS} if node.kind == "loop" else set()
    for text in texts_in([node.task, node.question, node.args, list(node.entrants)]):
        for name, fields in named_in(text):
            if name not in known:
                yield f"it speaks of {{{name}}}, which it does not need: write {_fix(name, node, nodes, known)}"
            elif fields and (told := _missing(_of(name, node, nodes), name, fields)):
                yield f"it speaks of {{{name}.{'.'.join(fields)}}}, and {told}"


def _fix(name: str, node: FlowNode, nodes: Mapping[str, FlowNode], known: set[str]) -> str:
    if name in nodes:
        return f"needs={[*node.needs, name]}"
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"{{{close[0]}}}" if close else f"{{{{{name}}}}} for the braces themselves"


def _of(name: str, node: FlowNode, nodes: Mapping[str, FlowNode]) -> Any:
    """The schema of what a name stands for in the texts of a node."""
    if name == ITEM and node.kind == "map" and name not in nodes:
        over = given_by(nodes.get(node.over))
        return over.get("items") if isinstance(over, dict) else None
    return given_by(nodes.get(name))


def _missing(schema: Any, name: str, fields: tuple[str, ...]) -> str:
    """Why a field cannot be in a value; empty if it can."""
    for field in fields:
        if not isinstance(schema, dict):
            return ""
        if "properties" not in schema:
            kind = schema.get("type")
            return f"{name} gives a {kind}" if kind in SCALARS else ""
        if field not in schema["properties"]:
            there = ", ".join(sorted(schema["properties"]))
            return f"the output of {name} has no {field!r}: it has {there}"
        schema = schema["properties"][field]
    return ""


def condition_problems(node: FlowNode, nodes: Mapping[str, FlowNode]) -> Iterator[str]:
    """What is wrong with the condition of a gate or a phase."""
    from windlass.runtime.bind.cel_expressions import Expression

    try:
        Expression.of(node.when)
    except UsageError as error:
        yield str(error)
        return
    known = [INPUT, *node.needs, *node.optional, *([OUTPUT] if node.kind == "phase" else [])]
    for match in FIELD.finditer(QUOTED.sub("''", node.when)):
        name, fields = match[1], tuple(re.findall(r"\w+", match[2]))
        if name not in known:
            yield f"its condition speaks of args.{name}, which it does not have: it has {', '.join(known)}"
        else:
            schema = node.output if name == OUTPUT and node.kind == "phase" else given_by(nodes.get(name))
            if told := _missing(schema, name, fields):
                yield f"its condition speaks of args.{'.'.join((name, *fields))}, and {told}"


def schema_problems(node: FlowNode, nodes: Mapping[str, FlowNode]) -> Iterator[str]:
    """An output that is no JSON Schema, and arrays that are wanted of nodes which give none."""
    if node.output is not None:
        from windlass.tools.validator import Validator

        try:
            Validator({"type": "object", "properties": {"value": node.output}}, "output").errors({})
        except UsageError as error:
            yield f"its output is no JSON Schema: {str(error).rpartition(': ')[2]}"
    arrays = [node.over] if node.kind == "map" else list(node.needs) if node.reducer == "merge_json_arrays" else []
    for name in arrays:
        kind = (nodes[name].output or {}).get("type") if name in nodes else None
        if kind is not None and kind != "array":
            yield f"it takes arrays, and the output of {name} is of type {kind}: give {name} an array as its output"
