"""Patterns take time in proportion to the text, whoever made them up."""

from __future__ import annotations

import fnmatch
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kernel.parts.tools.policy_rules import matches
from windlass.tools.linear_patterns import LinearPattern, NotLinear, name_pattern

NAMES = st.text(alphabet="ab-]![*?é.\n\udce9", max_size=6)


@given(NAMES, NAMES)
def test_a_glob_means_what_the_shell_means(glob, name):
    if "\udce9" in glob or "\udce9" in name:
        name_pattern(glob).fits(name)  # a name that is no text is no error
        return
    assert name_pattern(glob).fits(name) == (re.match(fnmatch.translate(glob), name) is not None)


@given(st.text(alphabet="ab*?.", max_size=8), st.text(alphabet="ab.\n", max_size=8))
def test_a_glob_of_a_policy_means_stars_and_question_marks_alone(glob, name):
    plain = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in glob)
    assert matches(glob, name) == (re.fullmatch(plain, name, re.DOTALL) is not None)


def test_many_stars_of_a_policy_do_not_make_a_long_subject_costly():
    begun = time.process_time()
    assert not matches("*a" * 12 + "*b", "a" * 20_000)
    assert time.process_time() - begun < 2  # it would not end


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "unterminated subpattern"),
        ("(?=a)", "look-around"),
        (r"(a)\1", "look-around, back-references"),
        ("[ab]{3000}", "too large"),
        ("[ab]{900}" * 60, "too large"),
    ],
)
def test_a_pattern_that_cannot_be_judged_in_bounded_time_says_why(pattern, why):
    with pytest.raises(NotLinear, match=why):
        LinearPattern(pattern)


def test_the_larger_an_expression_is_the_less_text_one_search_is_given():
    small, large = LinearPattern("x[ab]{30}|x"), LinearPattern("x[ab]{900}|x")
    assert 20 * large.chars_max < small.chars_max < 10_000_000
    reach = "b" * large.chars_max
    assert large.found_in(reach[1:] + "x")
    assert not large.found_in(reach + "x"), "what is further away is not looked at"
    assert not LinearPattern("b*|x[ab]{900}").fits(reach * 2), "a text that is too long fits nothing"
