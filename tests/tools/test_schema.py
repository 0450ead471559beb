"""Schemas from signatures: each kind of annotation, compared whole. Annotations in this file are text (PEP 563)."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import ipaddress
import json
import pathlib
import subprocess
import sys
import typing
import uuid
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from typing_extensions import Doc, TypeAliasType

from windlass.events.errors import UsageError
from windlass.tools.tool import tool

if TYPE_CHECKING:
    from windlass.tools.context import ToolContext

T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)
Either = TypeVar("Either", int, str)
UserId = NewType("UserId", int)
Names = TypeAliasType("Names", list[str])
Endless = TypeAliasType("Endless", "list[Endless]")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    """How loud."""

    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    PAIR = (1, 2)
    OTHER = object()


class Bits(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: Across.
    """

    x: int
    y: Annotated[int, "Down."] = 0
    tags: list[str] = dataclasses.field(default_factory=list)
    made: uuid.UUID = dataclasses.field(default_factory=uuid.uuid4)
    hidden: int = dataclasses.field(default=0, init=False)
    shared: typing.ClassVar[int] = 3


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Scaled:
    size: int
    factor: dataclasses.InitVar[int] = 2


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: list[T]


class Movie(TypedDict):
    """A film."""

    title: str
    year: typing.NotRequired[int]


class Sequel(Movie, total=False):
    part: typing.Required[int]
    cast: list[str]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Order(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An order.

    Args:
        item_name: What is ordered.
    """

    item_name: str
    how_many: Annotated[int, msgspec.Meta(ge=1, description="Pieces.")] = 1
    note: str | msgspec.UnsetType = msgspec.UNSET
    lines: list[str] = []


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    tricks: list[str]


@attrs.define
class Car:
    wheels: int
    _plate: str = "none"
    seats: list[int] = attrs.field(factory=list)


class Address(pydantic.BaseModel):
    title: str
    street: str = pydantic.Field(description="Street and number.")


class Person(pydantic.BaseModel):
    name: str
    home: Address
    friends: list[Person] = []


class Text(str):
    pass


INT = {"type": "integer"}
STR = {"type": "string"}
NODE = {
    "type": "object",
    "properties": {"value": INT, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []}},
    "required": ["value"],
    "additionalProperties": False,
}
POINT = {
    "type": "object",
    "description": "A place.",
    "properties": {
        "x": {"type": "integer", "description": "Across."},
        "y": {"type": "integer", "description": "Down.", "default": 0},
        "tags": {"type": "array", "items": STR, "default": []},
        "made": {"type": "string", "format": "uuid"},
    },
    "required": ["x"],
    "additionalProperties": False,
}


def parameter(annotation: Any) -> Any:
    """The schema of one required parameter of this type, whole."""

    def f(x): ...

    f.__annotations__ = {"x": annotation}
    schema = tool(f).parameters.schema
    expected = {"type": "object", "properties": schema["properties"], "required": ["x"], "additionalProperties": False}
    definitions = schema.pop("$defs", None)
    assert schema == expected
    return schema["properties"]["x"] if definitions is None else (schema["properties"]["x"], definitions)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", STR),
        ("int", INT),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("None", {"type": "null"}),
        ("Any", {}),
        ("object", {}),
        ("typing.LiteralString", STR),
        ("Optional[int]", {"anyOf": [INT, {"type": "null"}]}),
        ("int | None", {"anyOf": [INT, {"type": "null"}]}),
        ("Union[int, str, None]", {"anyOf": [INT, STR, {"type": "null"}]}),
        ("Union[int, Optional[str]]", {"anyOf": [INT, STR, {"type": "null"}]}),
        ("Any | None", {}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Literal[1, 'b', None, True]", {"enum": [1, "b", None, True]}),
        ("Literal[Colour.RED]", {"type": "string", "enum": ["red"]}),
        ("Colour", {"type": "string", "enum": ["red", "green"]}),
        ("Level", {"type": "integer", "enum": [1, 2], "description": "How loud."}),
        ("Odd", {"type": "string", "enum": ["PAIR", "OTHER"]}),
        ("list", {"type": "array"}),
        ("list[int]", {"type": "array", "items": INT}),
        ("typing.List[int]", {"type": "array", "items": INT}),
        ("collections.abc.Sequence[int]", {"type": "array", "items": INT}),
        ("collections.abc.Iterable[int]", {"type": "array", "items": INT}),
        ("set[int]", {"type": "array", "items": INT, "uniqueItems": True}),
        ("frozenset[str]", {"type": "array", "items": STR, "uniqueItems": True}),
        ("tuple", {"type": "array"}),
        ("tuple[int, ...]", {"type": "array", "items": INT}),
        ("tuple[int, int]", {"type": "array", "items": INT, "minItems": 2, "maxItems": 2}),
        ("tuple[int, str]", {"type": "array", "prefixItems": [INT, STR], "minItems": 2, "maxItems": 2}),
        ("tuple[()]", {"type": "array", "minItems": 0, "maxItems": 0}),
        ("dict", {"type": "object", "additionalProperties": True}),
        ("dict[str, int]", {"type": "object", "additionalProperties": INT}),
        ("typing.Mapping[str, Any]", {"type": "object", "additionalProperties": True}),
        (
            "dict[int, str]",
            {"type": "object", "propertyNames": {"pattern": "^-?[0-9]+$"}, "additionalProperties": STR},
        ),
        (
            "dict[Colour, int]",
            {"type": "object", "propertyNames": {"enum": ["red", "green"]}, "additionalProperties": INT},
        ),
        (
            "list[dict[str, list[int]]]",
            {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "array", "items": INT}}},
        ),
        ("datetime.datetime", {"type": "string", "format": "date-time"}),
        ("datetime.date", {"type": "string", "format": "date"}),
        ("datetime.time", {"type": "string", "format": "time"}),
        ("datetime.timedelta", {"type": "string", "format": "duration"}),
        ("uuid.UUID", {"type": "string", "format": "uuid"}),
        ("pathlib.Path", {"type": "string", "format": "path"}),
        ("decimal.Decimal", {"anyOf": [{"type": "number"}, STR]}),
        ("bytes", {"type": "string", "contentEncoding": "base64"}),
        ("ipaddress.IPv4Address", {"type": "string", "format": "ipv4"}),
        ("Text", STR),
        ("UserId", INT),
        ("Names", {"type": "array", "items": STR}),
        ("T", {}),
        ("Bound", INT),
        ("Either", {"anyOf": [INT, STR]}),
        ("Annotated[int, 'How many.']", {"type": "integer", "description": "How many."}),
        ("Annotated[int, Doc('How many.')]", {"type": "integer", "description": "How many."}),
        (
            "Annotated[int, msgspec.Meta(ge=1, lt=9, description='How many.', examples=[3])]",
            {"type": "integer", "description": "How many.", "minimum": 1, "exclusiveMaximum": 9, "examples": [3]},
        ),
        (
            "Annotated[str, msgspec.Meta(min_length=1, pattern='^a')]",
            {"type": "string", "minLength": 1, "pattern": "^a"},
        ),
        (
            "Annotated[list[int], annotated_types.Len(1, 3)]",
            {"type": "array", "items": INT, "minItems": 1, "maxItems": 3},
        ),
        ("Annotated[int, annotated_types.Gt(0)]", {"type": "integer", "exclusiveMinimum": 0}),
        ("Annotated[int | None, annotated_types.Ge(0)]", {"anyOf": [INT, {"type": "null"}], "minimum": 0}),
        (
            "Annotated[int, pydantic.Field(description='How many.', ge=2)]",
            {"type": "integer", "description": "How many.", "minimum": 2},
        ),
        ("Annotated[int, {'not': 'ours'}]", INT),
        ("Point", POINT),
        (
            "Scaled",
            {
                "type": "object",
                "properties": {"size": INT, "factor": {"type": "integer", "default": 2}},
                "required": ["size"],
                "additionalProperties": False,
            },
        ),
        (
            "Box[int]",
            {
                "type": "object",
                "properties": {"content": INT, "more": {"type": "array", "items": INT}},
                "required": ["content", "more"],
                "additionalProperties": False,
            },
        ),
        (
            "Sequel",
            {
                "type": "object",
                "properties": {"title": STR, "year": INT, "part": INT, "cast": {"type": "array", "items": STR}},
                "required": ["title", "part"],
                "additionalProperties": False,
            },
        ),
        (
            "Movie",
            {
                "type": "object",
                "description": "A film.",
                "properties": {"title": STR, "year": INT},
                "required": ["title"],
                "additionalProperties": False,
            },
        ),
        (
            "Pair",
            {
                "type": "object",
                "properties": {"left": INT, "right": {"type": "string", "default": "r"}},
                "required": ["left"],
                "additionalProperties": False,
            },
        ),
        (
            "Order",
            {
                "type": "object",
                "description": "An order.",
                "properties": {
                    "itemName": {"type": "string", "description": "What is ordered."},
                    "howMany": {"type": "integer", "description": "Pieces.", "minimum": 1, "default": 1},
                    "note": STR,
                    "lines": {"type": "array", "items": STR, "default": []},
                },
                "required": ["itemName"],
                "additionalProperties": False,
            },
        ),
        (
            "Cat | Dog",
            {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"type": {"const": "cat"}, "lives": INT},
                        "required": ["type", "lives"],
                    },
                    {
                        "type": "object",
                        "properties": {"type": {"const": "dog"}, "tricks": {"type": "array", "items": STR}},
                        "required": ["type", "tricks"],
                    },
                ]
            },
        ),
        (
            "Car",
            {
                "type": "object",
                "properties": {
                    "wheels": INT,
                    "plate": {"type": "string", "default": "none"},
                    "seats": {"type": "array", "items": INT, "default": []},
                },
                "required": ["wheels"],
                "additionalProperties": False,
            },
        ),
        (
            "Address",
            {
                "type": "object",
                "properties": {"title": STR, "street": {"type": "string", "description": "Street and number."}},
                "required": ["title", "street"],
            },
        ),
        ("pydantic.SecretStr", {"type": "string", "format": "password", "writeOnly": True}),
    ],
)
def test_annotation_has_this_schema(annotation, schema):
    assert parameter(annotation) == schema


def test_recursive_class_is_a_definition():
    assert parameter("Node") == ({"$ref": "#/$defs/Node"}, {"Node": NODE})


def test_class_that_is_used_twice_is_a_definition():
    assert parameter("list[Point | None] | Point") == (
        {
            "anyOf": [
                {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}},
                {"$ref": "#/$defs/Point"},
            ]
        },
        {"Point": POINT},
    )


def test_pydantic_model_brings_its_definitions():
    here, definitions = parameter("Person")
    assert here == {"$ref": "#/$defs/Person"}
    assert definitions["Person"]["properties"]["friends"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Person"},
        "default": [],
    }
    assert definitions["Address"]["properties"]["title"] == STR  # a property called title is no generated title


def test_classes_of_one_name_do_not_mix():
    def one() -> Any:
        @dataclasses.dataclass
        class Same:
            a: int
            more: list[Same]

        return Same

    def two() -> Any:
        @dataclasses.dataclass
        class Same:
            b: int

        return Same

    def f(x, y, z): ...

    first, second = one(), two()
    f.__annotations__ = {"x": first, "y": second, "z": second}
    schema = tool(f).parameters.schema
    assert schema["properties"] == {
        "x": {"$ref": "#/$defs/Same"},
        "y": {"$ref": "#/$defs/Same_2"},
        "z": {"$ref": "#/$defs/Same_2"},
    }
    assert list(schema["$defs"]["Same_2"]["properties"]) == ["b"]


def test_signature_with_everything():
    @tool
    def everything(
        a: int, /, b: str, ctx: ToolContext, c: float = 1.5, *, d: Colour = Colour.RED, e: bool = False, f=None
    ):
        """Does much.

        More about it.

        Args:
            a: The first.
            b (str, optional): The second,
                on two lines.

        Returns:
            Nothing.
        """

    assert everything.description == "Does much.\n\nMore about it.\n\nReturns:\n    Nothing."
    assert everything.parameters.schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "string", "description": "The second, on two lines."},
            "c": {"type": "number", "default": 1.5},
            "d": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "e": {"type": "boolean", "default": False},
            "f": {"default": None},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert everything.parameters.context == "ctx"


def test_default_of_none_makes_the_parameter_nullable():
    @tool
    def f(x: str = None): ...  # type: ignore[assignment]  # noqa: RUF013 - people write this

    assert f.parameters.schema["properties"]["x"] == {"anyOf": [STR, {"type": "null"}], "default": None}


def test_default_without_a_json_form_is_not_in_the_schema():
    @tool
    def f(x: Any = object()): ...  # noqa: B008 - a sentinel

    assert f.parameters.schema == {"type": "object", "properties": {"x": {}}, "additionalProperties": False}


def test_pydantic_field_as_default():
    @tool
    def f(
        x: int = pydantic.Field(description="How many.", ge=1),
        y: int = pydantic.Field(3),
        z: list[int] = pydantic.Field(default_factory=list),  # noqa: B008 - as its users write it
    ): ...

    assert f.parameters.schema["properties"] == {
        "x": {"type": "integer", "description": "How many.", "minimum": 1},
        "y": {"type": "integer", "default": 3},
        "z": {"type": "array", "items": INT, "default": []},
    }
    assert f.parameters.schema["required"] == ["x"]


def test_local_types_are_found():
    @dataclasses.dataclass
    class Local:
        inner: list[Local]

    class Kind(enum.Enum):
        A = "a"

    @tool
    def f(x: Local, kind: Kind | None = None): ...

    assert f.parameters.schema["properties"] == {
        "x": {"$ref": "#/$defs/Local"},
        "kind": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}], "default": None},
    }


@tool
def forward(x: DefinedLater) -> int:
    return x.n


@dataclasses.dataclass
class DefinedLater:
    n: int


def test_type_that_is_defined_later_is_resolved_on_first_use():
    assert list(forward.parameters.schema["properties"]["x"]["properties"]) == ["n"]


def test_name_that_is_nowhere_is_a_usage_error_with_function_and_parameter():
    @tool
    def lost(x: int, where: Nowhere): ...  # type: ignore[name-defined]  # noqa: F821 - that is the point

    with pytest.raises(UsageError, match=r"tool 'lost': the type 'Nowhere' of 'where' cannot be resolved: 'Nowhere'"):
        _ = lost.parameters


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("collections.abc.Callable[[int], int]", "has no JSON form"),
        ("type[int]", "has no JSON form"),
        ("complex", "has no JSON form"),
        ("Bits", "flags combine"),
        ("dict[tuple[int, int], str]", "the keys of a JSON object are texts"),
        ("Literal[b'x']", "a literal must be text"),
        ("Endless", "refers to itself"),
        ("Annotated[decimal.Decimal, annotated_types.Gt(0)]", "check it in the tool"),
        ("subprocess.Popen", "has no JSON form"),
    ],
)
def test_type_without_a_json_form_is_refused_by_name(annotation, message):
    with pytest.raises(UsageError, match=r"tool 'f': .*'x'.*" + message):
        parameter(annotation)


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda: tool(lambda_named(lambda *args: 0)), r"\*args cannot be described to a model: use a list parameter"),
        (lambda: tool(lambda_named(lambda **more: 0)), r"\*\*more cannot be described to a model"),
        (lambda: tool(lambda x: 0), "give it one of letters"),
        (lambda: tool(lambda_named(two_contexts)), "both 'a' and 'b' are the tool context"),
    ],
)
def test_signature_that_no_model_can_fill_is_refused(define, message):
    with pytest.raises(UsageError, match=message):
        define()


def lambda_named(function: Any) -> Any:
    function.__name__ = "named"
    return function


def two_contexts(a: ToolContext, b: ToolContext) -> None: ...


def test_bound_values_of_a_partial_are_hidden_from_the_model():
    def connect(host: str, port: int, user: str = "me"): ...

    made = tool(functools.partial(connect, port=22))
    assert list(made.parameters.schema["properties"]) == ["host", "user"]
    assert made.name == "connect"


def test_schemas_are_the_same_under_every_hash_seed():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import json\n"
        "from windlass.tools.tool import tool\n"
        "from typing import Literal\n"
        "def f(a: Literal['x', 'y', 'z'], b: set[str] = frozenset({'p', 'q', 'r', 's'}), c: dict[str, int] = {'k': 1}): ...\n"
        "t = tool(f); print(json.dumps([t.parameters.schema, t.spec.digest, t.check({'a': 'x'}).digest]))\n"
    )
    source = str(pathlib.Path(__file__).parents[2] / "src")
    said = {
        subprocess.run(
            [sys.executable, "-c", program, source],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(said) == 1
    assert json.loads(said.pop())[0]["properties"]["b"]["default"] == ["p", "q", "r", "s"]


def test_pydantic_is_not_imported_for_plain_tools():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from windlass.tools.tool import tool\n"
        "@tool\ndef f(x: int, y: list[str] = []): ...\n"
        "f.parameters; f.spec; print('pydantic' in sys.modules, 'asyncio' in sys.modules, 'jsonschema_rs' in sys.modules)\n"
    )
    source = str(pathlib.Path(__file__).parents[2] / "src")
    done = subprocess.run([sys.executable, "-c", program, source], capture_output=True, text=True, check=True)
    assert done.stdout == "False False False\n"


NAMED_IN_TEXT = (collections.abc, datetime, decimal, ipaddress, annotated_types, Doc, Literal, Optional, Union)
