"""What a turn costs, where that is exact; and the benchmark of the kernel runs. Times belong into the benchmark."""

from __future__ import annotations

import pytest
from benchmarks.kernel import NOOP_BYTES_MAX, bytes_of_turns, main, worked

from windlass.kernel import log


def test_a_turn_with_a_no_op_tool_adds_little_and_always_the_same():
    sizes = bytes_of_turns(1_000)
    assert max(sizes) < NOOP_BYTES_MAX
    assert max(sizes) - min(sizes) < 40, "only the numbers in it grow, by their digits"


def test_a_session_that_is_compacted_as_in_real_use_has_a_state_that_stays_small():
    short, long = (len(log.dump(worked(records).state)) for records in (5_000, 40_000))
    assert long < 3 * short


@pytest.mark.long
def test_the_benchmark_runs(capsys):
    assert main(["--quick"]) == 0
    assert "folding / decoding" in capsys.readouterr().out
