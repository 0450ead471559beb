"""Arguments become Python values, anew for each call; what a schema lets through converts, or says where it does not."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.tools.tool import tool
from windlass.tools.types.convert import Mismatch
from windlass.tools.types.plain_values import to_plain


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Odd(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("n must be even")


class Movie(TypedDict, total=False):
    title: str
    point: Point


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Order(msgspec.Struct, rename="camel"):
    item_name: str
    how_many: int = 1


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    lives: int


@attrs.define
class Car:
    wheels: int
    _plate: str = "none"


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    name: str
    born: datetime.date


def takes(annotation: Any) -> Any:
    def f(x): ...

    f.__annotations__ = {"x": annotation}
    return tool(f)


def value(annotation: Any, json: Any) -> Any:
    """The Python value that a parameter of this type gets for a JSON value that its schema accepts."""
    made = takes(annotation)
    assert made.validator.errors({"x": json}) == ()
    return made.parameters.values({"x": json})["x"]


@pytest.mark.parametrize(
    ("annotation", "json", "python"),
    [
        (int, 3, 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (int | float, 3, 3),
        (float | int, 3, 3),
        (float | int, 3.5, 3.5),
        (bool | int, True, True),
        (int | bool, True, True),
        (str | None, None, None),
        (Literal[1, "a"], 1.0, 1),
        (Literal[True, 1], 1, 1),
        (Colour, "green", Colour.GREEN),
        (Odd, "PAIR", Odd.PAIR),
        (Literal[Colour.RED], "red", Colour.RED),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (set[int], [1, 2], {1, 2}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (collections.deque[int], [1], collections.deque([1])),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[()], [], ()),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
        (dict[datetime.date, int], {"2024-02-29": 1}, {datetime.date(2024, 2, 29): 1}),
        (datetime.datetime, "2024-02-29T10:00:00Z", datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC)),
        (datetime.datetime, "2024-02-29T10:00:00", datetime.datetime(2024, 2, 29, 10)),
        (datetime.time, "10:30:00", datetime.time(10, 30)),
        (datetime.timedelta, "PT90S", datetime.timedelta(seconds=90)),
        (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
        (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
        (bytes, "AP8=", b"\x00\xff"),
        (Annotated[int, "x"] | None, 5, 5),
        (Point, {"x": 1}, Point(1, 0)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
        (Movie, {"title": "t", "point": {"x": 1}}, {"title": "t", "point": Point(1)}),
        (Pair, {"left": 1}, Pair(1, "r")),
        (Order, {"itemName": "a", "unknown": 1}, Order("a")),
        (Cat | Dog, {"type": "dog", "lives": 1}, Dog(1)),
        (Point | Pair, {"left": 1}, Pair(1)),
        (Car, {"wheels": 4, "plate": "W"}, Car(4, "W")),
        (Person, {"name": "a", "born": "2000-01-02"}, Person(name="a", born=datetime.date(2000, 1, 2))),
        (datetime.date | str, "soon", "soon"),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
    ],
)
def test_value_converts_to(annotation, json, python):
    converted = value(annotation, json)
    assert converted == python
    assert type(converted) is type(python)


@pytest.mark.parametrize(
    ("annotation", "json", "message"),
    [
        (datetime.date, "29 Feb", "x: is not a valid date"),
        (datetime.datetime, "2024-13-01T00:00:00Z", "x: is not a valid datetime"),
        (uuid.UUID, "12", "x: is not a valid UUID"),
        (decimal.Decimal, "NaN", "x: is not a valid Decimal: not a finite number"),
        (decimal.Decimal, "abc", "x: is not a valid Decimal"),
        (bytes, "é", "x: is not a valid bytes: not valid base64"),
        (list[Even], [{"n": 2}, {"n": 3}], r"x\[1\]: is not acceptable: n must be even"),
        (Even | None, {"n": 3}, "x: is not acceptable: n must be even"),
        (dict[int, str], {"1": "a", "01": "b"}, "x: has two keys that mean the same"),
        (set[list[int]], [[1]], "x: is not acceptable"),
        (Person, {"name": "a", "born": "tomorrow"}, "x.born: "),
    ],
)
def test_value_that_only_its_type_refuses_is_an_argument_error_with_the_path(annotation, json, message):
    made = takes(annotation)
    assert made.validator.errors({"x": json}) == ()
    with pytest.raises(Mismatch, match=message):
        made.parameters.values({"x": json})
    (error,) = made.check({"x": json}).errors
    assert error.startswith("x")


@pytest.mark.parametrize(
    ("annotation", "json"),
    [
        (int, True),
        (int, 1.5),
        (int, "1"),
        (bool, 1),
        (float, "1"),
        (float, 10**400),
        (str, 1),
        (list[int], {"0": 1}),
        (tuple[int, int], [1]),
        (dict[str, int], []),
        (Point, {"y": 1}),
        (Point, {"x": 1, "z": 2}),
        (Point, [1, 2]),
        (Cat | Dog, {"type": "cow", "lives": 1}),
        (Literal["a"], "b"),
        (Literal[1], True),
        (None, 0),
    ],
)
def test_conversion_refuses_what_the_schema_refuses(annotation, json):
    made = takes(annotation)
    if json != 10**400:  # a number to JSON Schema, but not to Python's float
        assert made.validator.errors({"x": json}) != ()
    with pytest.raises(Mismatch):
        made.parameters.values({"x": json})


def test_arguments_are_never_shared_with_the_tool():
    @tool
    def spoil(data: dict[str, list[int]], anything: Any, default: list[int] = [1]):  # noqa: B006 - people write this
        data["a"].append(99)
        anything["deep"]["er"] = "spoilt"
        default.append(99)
        return default

    given_args = {"data": {"a": [1]}, "anything": {"deep": {}}}
    for _ in range(2):
        positional, named = spoil.parameters.bound(given_args, None)
        assert spoil(*positional, **named) == [1, 99]
    assert given_args == {"data": {"a": [1]}, "anything": {"deep": {}}}


def test_defaults_are_completed_inside_records_too():
    @tool
    def f(points: list[Point], node: Node | None = None, order: Order | Point | None = None, n: int = 7): ...

    args = {"points": [{"x": 1}], "node": {"value": 1, "children": [{"value": 2}]}}
    assert f.parameters.completed(args) == {
        "points": [{"x": 1, "y": 0}],
        "node": {"value": 1, "children": [{"value": 2, "children": []}]},
        "order": None,
        "n": 7,
    }
    assert args == {"points": [{"x": 1}], "node": {"value": 1, "children": [{"value": 2}]}}


def test_positional_only_parameters_are_passed_by_position():
    @tool
    def f(a: int, b: int = 2, /, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    positional, named = f.parameters.bound({"c": 9, "a": 1}, None)
    assert f(*positional, **named) == (1, 2, 9)


# --- values make the way through schema and conversion and back ---------------------------------------------------

WHOLE = st.integers(-(2**70), 2**70)
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, WHOLE),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, st.text()),
    (bool, st.booleans()),
    (datetime.date, st.dates()),
    (datetime.datetime, st.datetimes(timezones=st.none() | st.just(datetime.UTC))),
    (datetime.timedelta, st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999))),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Colour, st.sampled_from(Colour)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (Point, st.builds(Point, x=WHOLE, y=WHOLE)),
    (Pair, st.builds(Pair, left=WHOLE, right=st.text())),
]
ROWS = st.sampled_from(SCALARS)


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A type and a value of it."""
    kind = draw(st.sampled_from(["scalar", "list", "dict", "optional", "pair", "set"] if depth else ["scalar"]))
    annotation, values = draw(ROWS)
    if kind == "scalar":
        return annotation, draw(values)
    if kind == "set":
        return set[annotation], draw(st.sets(values, max_size=4))  # type: ignore[valid-type]
    inner, example = draw(typed_values(depth=depth - 1))
    if kind == "list":
        return list[inner], [example] * draw(st.integers(0, 3))  # type: ignore[valid-type]
    if kind == "dict":
        return dict[str, inner], dict.fromkeys(draw(st.sets(st.text(), max_size=3)), example)  # type: ignore[valid-type]
    if kind == "optional":
        return inner | None, draw(st.sampled_from([example, None]))
    return tuple[annotation, inner], (draw(values), example)  # type: ignore[valid-type]


@given(typed_values())
def test_every_value_passes_its_schema_and_comes_back(pair):
    annotation, python = pair
    json = msgspec.json.decode(msgspec.json.encode(to_plain(python)))
    made = takes(annotation)
    checked = made.check({"x": json})
    assert checked.errors == ()
    assert made.parameters.values({"x": json})["x"] == python
    assert made.parameters.values(checked.args)["x"] == python


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(typed_values(), JSON)
def test_any_json_either_converts_or_is_an_error_with_the_path(pair, json):
    made = takes(pair[0])
    checked = made.check({"x": json})
    if checked.errors:
        assert all(error.startswith("x") for error in checked.errors)
    else:
        made.parameters.values({"x": json})
