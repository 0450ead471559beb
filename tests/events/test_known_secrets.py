"""Known secrets are found in every form and however the bytes were cut."""

from __future__ import annotations

import base64
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.errors import UsageError
from windlass.events.stored.known_secrets import HIDDEN, KnownSecrets

VALUE = 'p4ss"wörd/with+all & sorts'


def known(*values: str) -> KnownSecrets:
    secrets = KnownSecrets()
    for value in values:
        secrets.add(value)
    return secrets


@pytest.mark.parametrize(
    "written",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        urllib.parse.quote(VALUE, safe=""),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(b":" + VALUE.encode()).decode(),
    ],
)
def test_each_form_is_hidden(written):
    clean = known(VALUE).hidden_text(f"before {written} after")
    assert HIDDEN in clean
    assert VALUE not in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")


def test_what_holds_none_is_the_same_object():
    secrets, text = known(VALUE), "harmless"
    assert secrets.hidden_text(text) is text
    data = text.encode()
    assert secrets.hidden(data) is data


def test_a_secret_that_holds_another_is_hidden_whole():
    assert known("abcdef", "xx-abcdef-yy").hidden_text("xx-abcdef-yy") == HIDDEN


def test_a_short_value_is_refused_and_a_short_key_passed_over():
    secrets = KnownSecrets()
    with pytest.raises(UsageError, match="at least 4"):
        secrets.add("abc")
    secrets.add_key("ollama")
    secrets.add_key(None)
    assert secrets.hidden_text("ollama") == "ollama"


@given(st.lists(st.sampled_from([b"secret-one", b"secret-oneand", b"x", b"secret-", b"one"]), max_size=12), st.data())
def test_pieces_are_hidden_however_they_were_cut(parts, data):
    secrets = known("secret-one", "secret-oneand")
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    clean = b"".join(secrets.hidden_pieces(pieces))
    assert not secrets.within(clean)
    assert secrets.within_pieces(pieces) == secrets.within(whole)
    if not secrets.within(whole):
        assert clean == whole


@pytest.mark.parametrize("deep", [1, 2, 3])
def test_it_is_found_in_json_within_json(deep):
    written = value = '-----BEGIN KEY-----\nMIIEabcdefgh\n-----END "KEY"-----\n'
    for _ in range(deep):
        written = json.dumps({"key": written})
    assert "MIIE" not in known(value).hidden_text(written)


def test_what_a_host_names_gives_way_to_nothing():
    secrets = known("the very first one")
    for number in range(300):
        secrets.add(f"named by the host {number}")
        secrets.add_key(f"a key that is in use {number}")
    assert secrets.hidden_text("the very first one") == HIDDEN
    assert secrets.hidden_text("a key that is in use 299") == HIDDEN
