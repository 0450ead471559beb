"""`@tool` and its value: it stays the function it was, and knows its spec, text, schema and digest."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import msgspec
import pytest

from windlass.events.errors import UsageError
from windlass.events.values.items import ToolSchema
from windlass.events.values.tools import ToolSpec, ToolText
from windlass.tools.context import ToolContext
from windlass.tools.tool import Tool, as_tool, external_tool, tool
from windlass.tools.tool_digest import implementation

PARAMETERS = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 2}},
    "required": ["x"],
    "additionalProperties": False,
}


@tool
def add(x: int, y: int = 2) -> int:
    """Add two numbers."""
    return x + y


def test_tool_stays_callable_as_the_function_it_was():
    assert add(1) == 3
    assert add(x=1, y=1) == 2
    named: Any = add
    assert (named.__name__, named.__doc__, named.__module__) == ("add", "Add two numbers.", __name__)
    assert list(inspect.signature(add).parameters) == ["x", "y"]


def test_tool_has_spec_text_and_schema():
    digest = add.spec.digest
    assert digest.startswith("sha256:")
    assert add.spec == ToolSpec(name="add", digest=digest, code=add.spec.code, schema=add.spec.schema)
    assert add.text == ToolText(name="add", description="Add two numbers.", parameters=PARAMETERS)
    assert add.schema == ToolSchema(name="add", description="Add two numbers.", parameters=PARAMETERS)
    assert repr(add) == "<tool 'add'>"


def test_every_option_reaches_the_spec():
    @tool(
        name="2pay",
        description="  Pay.  ",
        contract="idempotent",
        timeout_ms=30_000,
        traits=("write", "egress"),
        kind="url",
        labels={"private"},
        alias="pay",
        exclusive=True,
        deferred=True,
        settle=True,
    )
    async def f(ctx: ToolContext, invoice: str) -> str:
        "Not told."
        return invoice

    assert f.spec == ToolSpec(
        name="2pay",
        digest=f.spec.digest,
        code=f.spec.code,
        schema=f.spec.schema,
        contract="idempotent",
        kind="url",
        traits=("write", "egress"),
        alias="pay",
        timeout_ms=30_000,
        exclusive=True,
        deferred=True,
        settle=True,
        labels=("private",),
    )
    assert (f.schema.name, f.text.name, f.description, f.mode) == ("pay", "2pay", "Pay.", "async")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "no spaces"}, "'no spaces' is no tool name"),
        ({"name": "x" * 65}, "is no tool name"),
        ({"name": "ü"}, "is no tool name"),
        ({"name": "1st"}, "'1st' is no name that models accept"),
        ({"alias": "a.b"}, "'a.b' is no name that models accept"),
        (
            {"contract": "idempotant"},
            r"tool option contract 'idempotant' is none of pure, idempotent, at_most_once: did you mean 'idempotent'\?",
        ),
        ({"contract": "twice"}, "tool option contract 'twice' is none of pure, idempotent, at_most_once$"),
        ({"traits": ["fly"]}, "tool option traits 'fly' is none of"),
        ({"kind": "magic"}, "tool option kind 'magic' is none of"),
        ({"timeout_ms": 0}, "timeout_ms=0 must be greater than 0"),
        ({"timeout_ms": "1"}, "tool option timeout_ms: expected `int`, got `str`"),
        ({"retries": 3}, "unknown tool option 'retries': known are alias, contract"),
        ({"runs": "client"}, "unknown tool option 'runs'"),
    ],
)
def test_option_that_means_nothing_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        tool(**{"name": "fine", **options})(lambda x: x)


def test_mistakes_in_use_are_named():
    with pytest.raises(UsageError, match="tool\\(\\) takes a function, not 'add'"):
        tool("add")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="is a tool already"):
        tool(add)
    assert as_tool(add) is add


def test_hand_written_parameters_pass_arguments_through():
    @tool(parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
    def anything(ctx: ToolContext, **given: Any) -> Any:
        return given

    assert anything.check({}).errors == ("q: is required",)
    assert anything.parameters.context == "ctx"
    positional, named = anything.parameters.bound({"q": "x"}, None)
    assert anything(*positional, **named) == {"q": "x"}


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"type": "array"}, "must be a JSON Schema of an object"),
        ({"type": "object", "properties": {"x": {"$ref": "#/nowhere"}}}, "no valid JSON Schema"),
        ({"type": "object", "properties": {"x": {"pattern": "("}}}, "no valid JSON Schema"),
    ],
)
def test_parameters_by_hand_that_are_no_schema_are_refused_where_the_tool_is_defined(parameters, why):
    with pytest.raises(UsageError, match=f"tool 'q': .*{why}"):

        @tool(parameters=parameters)
        def q(args: Any) -> int:
            return 1


def test_external_tool_is_known_by_its_schema_only():
    made = external_tool(
        "pick", "Pick a file.", {"type": "object", "properties": {"q": {"type": "string"}}}, deferred=True
    )
    assert (made.spec.runs, made.mode, made.spec.deferred) == ("client", "external", True)
    assert made.check({"q": 1}).errors == ("q: must be string, got integer 1",)
    with pytest.raises(UsageError, match="is run by a client"):
        made()
    with pytest.raises(UsageError, match="must be a JSON Schema of an object"):
        external_tool("pick", "", {"type": "array"})
    with pytest.raises(UsageError, match="no valid JSON Schema"):
        external_tool("pick", "", {"type": "object", "properties": {"q": {"type": "strin"}}})


# --- digests -----------------------------------------------------------------------------------------------------


def variant(source: str, **options: Any) -> Tool[..., Any]:
    scope: dict[str, Any] = {}
    exec(source, scope)
    made: Tool[..., Any] = tool(**options)(scope["f"])
    return made


PLAIN = "def f(x: int) -> int:\n    'Do.'\n    return x + 1\n"


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (PLAIN.replace("+ 1", "+ 2"), {}),
        (PLAIN.replace("Do.", "Do it."), {}),
        (PLAIN.replace("x: int", "x: str"), {}),
        (PLAIN.replace("x: int", "x: int = 3"), {}),
        (PLAIN, {"contract": "pure"}),
        (PLAIN, {"name": "g"}),
        (PLAIN, {"timeout_ms": 5}),
        (PLAIN, {"traits": ("write",)}),
    ],
)
def test_digest_changes_with_whatever_matters(source, options):
    assert variant(source, **options).spec.digest != variant(PLAIN).spec.digest


def test_digest_stays_with_the_same_definition():
    assert variant(PLAIN).spec.digest == variant(PLAIN).spec.digest


def test_comments_and_layout_do_not_change_the_code():
    def one(x: int) -> int:
        return x + 1

    def two(x: int) -> int:
        # a comment
        return (
            x
            + 1
        )  # fmt: skip

    assert implementation(one).replace("one", "two") == implementation(two)


def test_code_without_source_is_digested_by_its_instructions():
    scope: dict[str, Any] = {}
    exec("def f(x):\n    return x in {'a', 'b', 'c', 'd'} and (lambda: 1)()", scope)
    found = implementation(scope["f"])
    assert found.index("a") < found.index("b\\") < found.index("d\\")  # the set's members in one order
    assert implementation(len) == "len"
    assert implementation(None) == ""
    assert implementation(functools.partial(scope["f"], x=1)).startswith("['x']")


def test_spec_goes_through_the_log():
    assert msgspec.json.decode(msgspec.json.encode(add.spec), type=ToolSpec) == add.spec
