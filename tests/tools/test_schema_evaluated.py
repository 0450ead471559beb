"""The same readings where annotations are objects, not text: this file has no `from __future__ import annotations`."""

import dataclasses
from typing import Annotated, Optional

import pytest

from windlass.events.errors import UsageError
from windlass.tools.context import ToolContext
from windlass.tools.tool import tool


@dataclasses.dataclass
class Leaf:
    size: int


def test_objects_and_quoted_parts_are_read_alike():
    @tool
    def f(a: list["Leaf"], b: "Leaf | None" = None, c: Annotated["int", "Many."] = 1): ...

    leaf = {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "required": ["size"],
        "additionalProperties": False,
    }
    assert f.parameters.schema == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"$ref": "#/$defs/Leaf"}},
            "b": {"anyOf": [{"$ref": "#/$defs/Leaf"}, {"type": "null"}], "default": None},
            "c": {"type": "integer", "description": "Many.", "default": 1},
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"Leaf": leaf},
    }


@pytest.mark.parametrize(
    "annotation",
    [ToolContext, Optional[ToolContext], ToolContext | None, Annotated[ToolContext, "x"]],  # noqa: UP045 - both forms
)
def test_context_is_injected_however_it_is_written(annotation):
    def f(x: int, where: annotation = None): ...  # type: ignore[valid-type]

    made = tool(f)
    assert list(made.parameters.schema["properties"]) == ["x"]
    assert made.parameters.context == "where"


def test_unannotated_parameters_take_anything():
    @tool
    def f(a, b=2): ...

    assert f.parameters.schema["properties"] == {"a": {}, "b": {"default": 2}}


def test_method_without_its_instance_is_refused():
    class Bank:
        @tool
        def pay(self, cents: int) -> int:
            return cents

    with pytest.raises(UsageError, match=r"it is a method: take it from an instance, such as `thing\.\w+`"):
        _ = Bank.pay.parameters
    assert list(Bank().pay.parameters.schema["properties"]) == ["cents"]
