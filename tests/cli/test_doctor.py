"""What `windlass doctor` says of the addresses that the environment gives."""

from __future__ import annotations

import pytest

from windlass.cli.verbs.setup.doctor import addresses


@pytest.mark.parametrize(
    ("base_url", "status", "says"),
    [
        ("http://api.example.com/v1", "wrong", "plain http"),
        ("http://192.168.1.7:4000/v1", "remark", "sent in the clear"),
        ("https://[broken", "wrong", "malformed"),
    ],
)
def test_an_address_that_gives_a_key_away_is_told(base_url, status, says):
    [(found, about, said)] = addresses({"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": base_url})[:1]
    assert (found, about) == (status, "address")
    assert "openai" in said
    assert says in said


def test_an_address_that_gives_nothing_away_is_not_told():
    assert addresses({"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": "https://proxy.example.com/v1"}) == []
    assert addresses({"OLLAMA_HOST": "http://gpu.example.com"}) == []
