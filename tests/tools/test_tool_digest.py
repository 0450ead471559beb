"""What approvals rest on: what a tool does and takes, and none of its prose."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from windlass.events.values.tools import ToolSpec
from windlass.tools.tool import external_tool, tool


def plain() -> ToolSpec:
    @tool
    def pay(cents: int, description: str = "") -> int:
        """Pay.

        Args:
            cents: how much
        """
        return cents

    return pay.spec


def other_words() -> ToolSpec:
    @tool(description="Pays what is due.")
    def pay(cents: Annotated[int, "the sum, in cents"], description: str = "") -> int:
        "Pays."
        return cents  # a comment

    return pay.spec


def other_code() -> ToolSpec:
    @tool
    def pay(cents: int, description: str = "") -> int:
        """Pay.

        Args:
            cents: how much
        """
        return cents * 2

    return pay.spec


def other_schema() -> ToolSpec:
    @tool
    def pay(cents: int, description: str = "", title: str = "") -> int:
        """Pay."""
        return cents

    return pay.spec


def typed(source: str) -> Any:
    space: dict[str, Any] = {}
    exec(source, space)
    return tool(space["pay"]).spec


def test_prose_is_no_part_of_what_a_tool_does_and_takes():
    # The annotation holds a description, so the code differs where it stands, and what it takes does not.
    before, now = plain(), other_words()
    assert before.digest != now.digest
    assert before.schema == now.schema


def test_a_docstring_is_no_part_of_the_code():
    words = "def pay(cents: int) -> int:\n    {}\n    return cents\n"
    assert typed(words.format("'Pay.'")).code == typed(words.format("'Pay now.'")).code
    assert typed(words.format("'Pay.'")).digest != typed(words.format("'Pay now.'")).digest


@pytest.mark.parametrize("other", [other_code, other_schema])
def test_other_code_or_another_parameter_is_another_tool(other: Callable[[], ToolSpec]):
    before, now = plain(), other()
    assert (before.code, before.schema) != (now.code, now.schema)
    assert (before.schema == now.schema) == (other is other_code)


def test_a_description_that_is_a_property_is_no_prose():
    given = {"type": "object", "properties": {"description": {"type": "string"}}}
    less: dict[str, Any] = {"type": "object", "properties": {}}
    assert external_tool("t", "", given).spec.schema != external_tool("t", "", less).spec.schema


def test_descriptions_of_a_decorator_are_prose_and_its_other_options_are_not():
    def described(text: str, **more: Any) -> ToolSpec:
        return tool(description=text, **more)(functools.partial(_paid)).spec

    assert described("a").code == described("b").code
    assert described("a").code != described("a", plane="far").code


def _paid(cents: int) -> int:
    return cents
