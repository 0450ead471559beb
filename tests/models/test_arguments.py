"""The arguments of a call as a provider sent them: an object, or the reason why they are none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.models.base import complete_args

TEXTS = st.text(alphabet='ab":,\\{} é', max_size=4)
VALUES = st.recursive(TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner))


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ('{"path": "a", "path": "b"}', "path"),
        ('{"a": {"b": 1, "c": "\\":", "b": 2}}', "b"),
        ('{"a" : 1, "\\u0061" : 2}', "a"),
        ('{"xs": [{"k": 1}, {"k": 1, "k": 2}]}', "k"),
    ],
)
def test_a_name_that_stands_twice_is_told_to_the_model(raw, name):
    assert complete_args(raw) == (None, f"arguments must not name anything twice, and {name!r} is")


@given(st.dictionaries(TEXTS, VALUES, max_size=4), st.sampled_from([None, 1, (" , ", " : ")]))
def test_names_that_stand_once_are_taken_as_they_are(value, layout):
    raw = json.dumps(value, separators=layout) if isinstance(layout, tuple) else json.dumps(value, indent=layout)
    assert complete_args(raw) == (value, None)
