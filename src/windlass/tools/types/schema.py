"""JSON Schemas of tool parameters, from Python signatures: in order of definition, without generated titles.

The same signature gives the same schema in every process; what has no JSON form was refused before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from windlass.events.values.blocks import JsonObject

from .shapes import (
    Choice,
    Encoded,
    Field,
    Fixed,
    Foreign,
    Items,
    Noted,
    Plain,
    Record,
    Reference,
    Shape,
    Shapes,
    Table,
    Union,
)

INTEGER_KEY = "^-?[0-9]+$"
JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(fields: tuple[Field, ...], shapes: Shapes) -> JsonObject:
    """The object schema for some named fields, with the definitions that they need."""
    writer = _Writer(shapes)
    schema = writer.object(fields, closed=True)
    if writer.definitions:
        schema["$defs"] = writer.definitions
    return schema


class _Writer:
    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self.definitions: dict[str, Any] = {}

    def write(self, shape: Shape) -> JsonObject:
        return _WRITERS[type(shape)](self, shape)

    def object(self, fields: tuple[Field, ...], *, closed: bool) -> JsonObject:
        schema: JsonObject = {"type": "object", "properties": {field.name: self.field(field) for field in fields}}
        required = [field.name for field in fields if field.required]
        if required:
            schema["required"] = required
        if closed:
            schema["additionalProperties"] = False
        return schema

    def field(self, field: Field) -> JsonObject:
        schema = self.write(field.shape)
        if field.description and not isinstance(field.shape, Noted):
            schema["description"] = field.description
        elif field.description:
            schema.setdefault("description", field.description)
        if field.default is not None and field.default.known:
            schema["default"] = copy.deepcopy(field.default.json)
        return schema

    def plain(self, shape: Plain) -> JsonObject:
        return {} if shape.json == "any" else {"type": shape.json}

    def encoded(self, shape: Encoded) -> JsonObject:
        if shape.numbers:
            return {"anyOf": [{"type": "number"}, {"type": "string"}], **shape.keywords}
        return {"type": "string", **shape.keywords}

    def choice(self, shape: Choice) -> JsonObject:
        values = [json for json, _ in shape.options]
        kinds = {type(value) for value in values}
        named: JsonObject = {"type": JSON_NAMES[kinds.pop()]} if len(kinds) == 1 else {}
        return {**named, "enum": values}

    def items(self, shape: Items) -> JsonObject:
        inner = self.write(shape.item)
        schema: JsonObject = {"type": "array", **({"items": inner} if inner else {})}
        return {**schema, "uniqueItems": True} if shape.unique else schema

    def fixed(self, shape: Fixed) -> JsonObject:
        inner = [self.write(item) for item in shape.items]
        sized: JsonObject = {"minItems": len(inner), "maxItems": len(inner)}
        if inner and all(schema == inner[0] for schema in inner):
            return {"type": "array", "items": inner[0], **sized}  # more providers know this form
        return {"type": "array", **({"prefixItems": inner} if inner else {}), **sized}

    def table(self, shape: Table) -> JsonObject:
        schema: JsonObject = {"type": "object"}
        key = self.write(shape.key)
        if key == {"type": "integer"}:
            schema["propertyNames"] = {"pattern": INTEGER_KEY}
        elif {name: value for name, value in key.items() if name != "type"}:
            schema["propertyNames"] = {name: value for name, value in key.items() if name != "type"}
        return {**schema, "additionalProperties": self.write(shape.value) or True}

    def record(self, shape: Record) -> JsonObject:
        name = shape.name
        if self._shapes.uses.get(name, 1) == 1 and name not in self._shapes.recursive:
            return self._whole(shape)
        if name not in self.definitions:
            self.definitions[name] = {}  # keeps the order of definition while it is being written
            self.definitions[name] = self._whole(shape)
        return {"$ref": f"#/$defs/{name}"}

    def _whole(self, shape: Record) -> JsonObject:
        schema = self.object(shape.fields, closed=not shape.open)
        if shape.tag is not None:
            name, value = shape.tag
            schema["properties"] = {name: {"const": value}, **schema["properties"]}
            schema["required"] = [name, *schema.get("required", ())]
        if shape.description:
            schema = {"type": "object", "description": shape.description, **schema}
        return schema

    def reference(self, shape: Reference) -> JsonObject:
        return {"$ref": f"#/$defs/{shape.name}"}

    def union(self, shape: Union) -> JsonObject:
        arms: list[JsonObject] = []
        for arm in shape.arms:
            schema = self.write(arm)
            if schema == {}:
                return {}
            arms += [one for one in (schema["anyOf"] if set(schema) == {"anyOf"} else [schema]) if one not in arms]
        return {"anyOf": arms} if len(arms) > 1 else arms[0]

    def noted(self, shape: Noted) -> JsonObject:
        described = {"description": shape.description} if shape.description else {}
        return {**self.write(shape.shape), **described, **shape.keywords}

    def foreign(self, shape: Foreign) -> JsonObject:
        schema = dict(shape.schema)
        inner = schema.pop("$defs", {})
        renamed = {name: self._free_name(name, body, shape.name) for name, body in inner.items()}
        for name, body in inner.items():
            self.definitions[renamed[name]] = _renamed(body, renamed)
        return dict(_renamed(schema, renamed))

    def _free_name(self, name: str, body: JsonObject, owner: str) -> str:
        taken = name in self._shapes.uses or self.definitions.get(name, body) != body
        return f"{owner}_{name}" if taken else name


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(entry, names) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    renamed_schema = {key: _renamed(value, names) for key, value in schema.items()}
    target = renamed_schema.get("$ref")
    if isinstance(target, str) and target.startswith("#/$defs/"):
        renamed_schema["$ref"] = "#/$defs/" + names.get(target[8:], target[8:])
    return renamed_schema


_WRITERS: dict[type[Shape], Callable[[_Writer, Any], JsonObject]] = {
    Plain: _Writer.plain,
    Encoded: _Writer.encoded,
    Choice: _Writer.choice,
    Items: _Writer.items,
    Fixed: _Writer.fixed,
    Table: _Writer.table,
    Record: _Writer.record,
    Reference: _Writer.reference,
    Union: _Writer.union,
    Noted: _Writer.noted,
    Foreign: _Writer.foreign,
}
