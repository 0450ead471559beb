"""Arguments before the gate: errors that a model can act on, canonical bytes, digests."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.errors import UsageError
from windlass.tools.tool import ARGUMENTS_BYTES_MAX, tool
from windlass.tools.validator import ERROR_CHARS_MAX, ERRORS_MAX, NotCanonical, Validator, canonical, digest


@dataclasses.dataclass
class Line:
    item: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


@tool
def order(
    lines: list[Line],
    customer: str,
    speed: Literal["slow", "fast"] = "slow",
    weight: int | float | None = None,
    extra: Line | None = None,
) -> None: ...


@pytest.mark.parametrize(
    ("args", "errors"),
    [
        ({"lines": [], "customer": "c"}, ()),
        ({"lines": []}, ("customer: is required",)),
        ({"lines": {}, "customer": "c"}, ("lines: must be array, got object",)),
        ({"lines": [{"item": "a"}, {"item": 3}], "customer": "c"}, ("lines[1].item: must be string, got integer 3",)),
        ({"lines": [{}], "customer": "c"}, ("lines[0].item: is required",)),
        (
            {"lines": [], "custmer": "c", "customer": "c"},
            ("custmer: is not known; did you mean 'customer'?",),
        ),
        (
            {"lines": [{"item": "a", "zzz": 1}], "customer": "c"},
            ("lines[0].zzz: is not known; known are 'item', 'count'",),
        ),
        (
            {"lines": [], "customer": "c", "speed": "warp"},
            ("speed: must be one of 'slow', 'fast', got string 'warp'",),
        ),
        (
            {"lines": [], "customer": "c", "weight": "1"},
            ("weight: must be integer or number or null, got string '1'",),
        ),
        ({"lines": [], "customer": "c", "extra": {"item": 1}}, ("extra.item: must be string, got integer 1",)),
        ({"lines": [{"item": "a", "count": 0}], "customer": "c"}, ("lines[0].count: 0 is less than the minimum of 1",)),
        ({"lines": [], "customer": None}, ("customer: must be string, got null",)),
        (
            {"lines": [], "customer": "\ud800"},
            ("the arguments hold text that is not valid Unicode (a lone surrogate)",),
        ),
        ({"lines": math.nan, "customer": "c"}, ("the arguments: nan is not a JSON number",)),
    ],
)
def test_errors_name_the_path_and_what_was_expected(args, errors):
    assert order.check(args).errors == errors


def test_errors_are_few_and_short():
    args = {"lines": [{"item": n} for n in range(100)], "customer": "c" * 10, "speed": "x" * 10_000}
    errors = order.check(args).errors
    assert len(errors) == ERRORS_MAX
    assert all(len(error) <= ERROR_CHARS_MAX for error in errors)


def test_too_large_and_too_deep_arguments_are_refused():
    large = order.check({"lines": [], "customer": "c" * ARGUMENTS_BYTES_MAX})
    assert large.errors[0].endswith(f"are more than the {ARGUMENTS_BYTES_MAX} allowed")
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert order.check({"lines": deep, "customer": "c"}).errors == ("the arguments: nested deeper than 100 levels",)


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, {"$ref": "#/$defs/Missing"}, {"$ref": "http://other.invalid/schema"}, {"pattern": "("}],
)
def test_schema_that_does_not_compile_is_a_usage_error_and_nothing_is_fetched(schema):
    with pytest.raises(UsageError, match="tool 'x': its parameters are no valid JSON Schema"):
        Validator(schema, "tool 'x'").errors({})


def test_checked_arguments_have_defaults_and_one_digest():
    short = order.check({"customer": "c", "lines": [{"item": "a"}]})
    full = order.check(
        {"lines": [{"count": 1.0, "item": "a"}], "customer": "c", "speed": "slow", "weight": None, "extra": None}
    )
    assert short.args == {
        "customer": "c",
        "lines": [{"item": "a", "count": 1}],
        "speed": "slow",
        "weight": None,
        "extra": None,
    }
    assert short.digest == full.digest == digest(short.args)
    assert short.digest != order.check({"customer": "d", "lines": [{"item": "a"}]}).digest


# --- canonical form ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ([], "[]"),
        ({}, "{}"),
        ([1, [2, {}]], "[1,[2,{}]]"),
        ({"b": 1, "a": {"d": 1, "c": 2}}, '{"a":{"c":2,"d":1},"b":1}'),
        ('"\\\x08\x0c\n\r\t\x1f/é€', '"\\"\\\\\\b\\f\\n\\r\\t\\u001f/é€"'),
        ("\u2028\x7f", '"\u2028\x7f"'),
        ("\ud800x", '"\\ud800x"'),
        # keys in the order of UTF-16 code units, as RFC 8785 3.2.3 has it
        (
            {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "ö": 7},
            '{"\\r":2,"1":4,"\x80":6,"ö":7,"€":1,"😀":5,"\ufb33":3}',
        ),
        (1.0, "1"),
        (-0.0, "0"),
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1e30, "1e+30"),
        (1e-27, "1e-27"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (333333333.33333329, "333333333.3333333"),
        (9007199254740991.0, "9007199254740991"),
        (9007199254740993, "9007199254740993"),  # exact, where RFC 8785 would round
        (9007199254740992.0, "9.007199254740992e+15"),
        (10**30, "1" + "0" * 30),
    ],
)
def test_canonical_text_is(value, text):
    assert canonical(value) == text.encode("utf-8", "backslashreplace")


@pytest.mark.parametrize("value", [math.nan, math.inf, b"x", {1: 2}, object(), [10**5000], {"a": {1, 2}}])
def test_what_json_cannot_write_has_no_canonical_form(value):
    with pytest.raises(NotCanonical):
        canonical(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_canonical_bytes_parse_back_and_are_stable(value):
    raw = canonical(value)
    assert json.loads(raw) == value
    assert canonical(json.loads(raw)) == raw


@given(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    st.integers() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_different_numbers_never_share_their_bytes(first, second):
    assert (canonical(first) == canonical(second)) <= (first == second)
