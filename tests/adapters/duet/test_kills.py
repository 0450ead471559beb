"""Processes killed at random moments: each prompt that was sent is taken once and answered once, in its order. What is
asserted holds whenever the kill comes."""

from __future__ import annotations

import pathlib
import random
import time
from typing import Any

import pytest

from .support import caller, do

KILLS_MAX = 2
"""Fewer than park a run."""
LATEST_S = 0.4


def talked(folder: pathlib.Path, seed: int) -> tuple[dict[str, Any], int]:
    """The state after three prompts, each sent again after every kill; and how many kills there were."""
    chance, state, kills = random.Random(seed), None, 0
    for number in range(3):
        left = KILLS_MAX
        while True:
            with caller(folder) as client:
                client.send("start", **({"state": state} if state is not None else {}))
                state = client.until("turn_started")["state"]
                client.prompt(do(f"answer {number}"), "follow_up", requestId=f"p{number}")
                if left and chance.random() < 0.8:
                    left, kills = left - 1, kills + 1
                    time.sleep(chance.random() * LATEST_S)
                    client.kill()
                    continue
                state = client.terminal()["state"]
                break
    assert state is not None
    return state, kills


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_no_prompt_is_lost_or_taken_twice_whenever_a_kill_comes(tmp_path, seed):
    state, kills = talked(tmp_path, seed)
    assert kills
    said = [(message["role"], message["text"]) for message in state["agent"]["messages"]]
    assert said == [
        one for number in range(3) for one in (("user", do(f"answer {number}")), ("assistant", f"answer {number}"))
    ]
