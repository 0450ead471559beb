"""What the kernel costs, as ratios within one run: folding, opening from a snapshot, bytes and CPU of a turn.

    python benchmarks/kernel.py            the figures of docs/concepts.md (about two minutes)
    python benchmarks/kernel.py --quick    a tenth of the size

Nothing is asserted here: a busy machine is not a bug. The bounds are printed beside what was measured.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from windlass.events.base import Fact
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.sessions import SessionStarted
from windlass.events.stored import codec, record
from windlass.events.tools.calls import ResultBody, ToolFinished
from windlass.events.turns import ModelReplied, Prepared, ReplyBody, ReplyCall
from windlass.events.values.blocks import CallSlot, Text
from windlass.events.values.items import ProposedCall
from windlass.events.values.models import ModelRef
from windlass.events.values.settings import Settings
from windlass.events.values.setup import AgentRef, Setup
from windlass.events.values.tools import ToolSpec
from windlass.events.values.usage import Price, Usage
from windlass.kernel import log
from windlass.kernel.phases import Compacting
from windlass.kernel.state import State
from windlass.kernel.step import step

TURNS_PER_PROMPT = 40
WINDOW_TOKENS = 128_000
RESULT_TOKENS = 600
"""With these a session is compacted every few hundred turns, as in real use."""

EARLY_TURN, LATE_TURN = 10, 1_000
NOOP_BYTES_MAX = 1_500


class Worker:
    """A session that calls a tool in every turn, answered at once, with every line kept."""

    def __init__(self, *, window: int = WINDOW_TOKENS, result_tokens: int = RESULT_TOKENS) -> None:
        self.state = State()
        self.lines: list[bytes] = []
        self.hash = record.GENESIS
        self.at_ms = 1_700_000_000_000
        self.result_tokens = result_tokens
        self.cpu_ns = 0
        model = ModelRef(name="test/model", window_tokens=window, price=Price(input=1_000_000, output=2_000_000))
        setup = Setup(
            agent=AgentRef(name="bench"),
            model=model,
            tools=(ToolSpec(name="noop", contract="pure", digest="d"),),
            settings=Settings(turns_max=10**9),
        )
        self.take(SessionStarted(command_id="start", session_id="bench", epoch=1, setup=setup))

    def take(self, fact: Fact) -> None:
        seq = self.state.seq + 1
        self.at_ms += 5
        begun = time.thread_time_ns()
        events = step(self.state, fact, self.at_ms)
        self.cpu_ns += time.thread_time_ns() - begun
        sealed = codec.encode(
            events, prev_hash=self.hash, seq=seq, at_ms=self.state.now_ms, epoch=1, salt=lambda: "c2FsdHNhbHRzYWx0"
        )
        self.hash = sealed.hash
        self.lines.append(sealed.data)

    def prompt(self) -> None:
        seq = self.state.seq + 1
        body = PromptBody(content=(Text(text="Call the tool once more."),))
        self.take(PromptReceived(command_id=f"command-{seq}", tokens=8, bytes=24, body=body))

    def reply(self, body: ReplyBody, finish: str = "stop") -> None:
        request = next(iter(self.state.requests.open.values()))
        self.take(
            ModelReplied(
                request_id=request.request_id,
                lane=request.lane,
                finish=finish,  # type: ignore[arg-type]
                usage=Usage(input_tokens=1_000, output_tokens=20),
                model="test/model",
                calls=len(body.calls),
                tokens=20,
                bytes=80,
                duration_ms=5,
                body=body,
            )
        )

    def turn(self, number: int) -> None:
        """The model asks for the tool, the tool answers."""
        if isinstance(self.state.phase, Compacting):
            self.reply(ReplyBody(blocks=(Text(text="It called the tool many times."),)))
        found = Prepared(digest=f"digest-{number}")
        call = ReplyCall(call=ProposedCall(ordinal=0, tool="noop", args={}, provider_call_id="call_0"), prepared=found)
        self.reply(ReplyBody(blocks=(CallSlot(ordinal=0),), calls=(call,)), "tool_calls")
        name = next(iter(self.state.calls.by_id))
        body = ResultBody(content=(Text(text="ok"),))
        self.take(ToolFinished(call_id=name, tokens=self.result_tokens, bytes=2, body=body))


def worked(records: int, **more: int) -> Worker:
    """A session with at least so many records, ended and prompted again every few turns."""
    worker = Worker(**more)
    number = 0
    while worker.state.seq < records:
        worker.prompt()
        for _ in range(TURNS_PER_PROMPT):
            number += 1
            worker.turn(number)
        if isinstance(worker.state.phase, Compacting):
            worker.reply(ReplyBody(blocks=(Text(text="It called the tool many times."),)))
        worker.reply(ReplyBody(blocks=(Text(text="done"),)))
    return worker


def best_of(times: int, work: Callable[[], object]) -> float:
    """The least CPU that some runs took, in seconds: what the work costs when nothing else wants the machine."""
    found = []
    for _ in range(times):
        gc.collect()
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def decoded(lines: list[bytes]) -> None:
    decode = codec.decoders.lines.decode
    for line in lines:
        decode(line)


def folding(records: int) -> Iterator[tuple[str, str, str]]:
    worker = worked(records)
    decode_s = best_of(5, lambda: decoded(worker.lines))
    fold_s = best_of(5, lambda: log.fold_lines(worker.lines))
    assert log.state_hash(log.fold_lines(worker.lines)) == log.state_hash(worker.state)
    yield "records folded", f"{worker.state.seq:,}", ""
    yield "decoding alone", f"{decode_s * 1e3:,.0f} ms", ""
    yield "folding", f"{fold_s * 1e3:,.0f} ms", ""
    yield "folding / decoding", f"{fold_s / decode_s:.2f}", "at most 5"


def opening(records: int) -> Iterator[tuple[str, str, str]]:
    worker = worked(records)
    tail = next(
        n
        for n in range(len(worker.lines))
        if msgspec.json.decode(worker.lines[-n - 1])["seq"] < worker.state.seq - 1_000
    )
    snapshot = log.dump(log.fold_lines(worker.lines[:-tail]))
    open_s = best_of(5, lambda: log.fold_lines(worker.lines[-tail:], log.load(snapshot)))
    fold_s = best_of(1, lambda: log.fold_lines(worker.lines))
    assert log.state_hash(log.fold_lines(worker.lines[-tail:], log.load(snapshot))) == log.state_hash(worker.state)
    yield "records of the session", f"{worker.state.seq:,}", ""
    yield "compactions in it", f"{worker.state.compaction.count:,}", ""
    yield "snapshot", f"{len(snapshot) / 1024:,.0f} KB", ""
    yield "opening from the snapshot (+ 1,000 records)", f"{open_s * 1e3:,.1f} ms", "under 1,000 ms"
    yield "full fold / opening", f"{fold_s / open_s:,.0f}", "at least 20"


def bytes_of_turns(turns: int) -> list[int]:
    """What each turn with a no-op tool adds to the log."""
    worker = Worker(window=10**9)
    worker.prompt()
    sizes = []
    for number in range(turns):
        before = len(worker.lines)
        worker.turn(number)
        sizes.append(sum(map(len, worker.lines[before:])))
    return sizes


def size(turns: int) -> Iterator[tuple[str, str, str]]:
    sizes = bytes_of_turns(turns)
    yield "bytes of turn 1", f"{sizes[0]:,}", f"under {NOOP_BYTES_MAX:,}"
    yield f"bytes of turn {turns:,}", f"{sizes[-1]:,}", f"under {NOOP_BYTES_MAX:,}, flat"


def cpu(sessions: int) -> Iterator[tuple[str, str, str]]:
    """The kernel's own time for turns round the tenth and round the thousandth, one session after the other."""
    early: list[float] = []
    late: list[float] = []
    for _ in range(sessions):
        worker = Worker(window=10**9)
        worker.prompt()
        gc.disable()
        for number in range(1, LATE_TURN + 10):
            before = worker.cpu_ns
            worker.turn(number)
            spent = (worker.cpu_ns - before) / 1_000
            if EARLY_TURN - 5 <= number < EARLY_TURN + 5:
                early.append(spent)
            elif LATE_TURN - 5 <= number < LATE_TURN + 5:
                late.append(spent)
        gc.enable()
    first, last = statistics.median(early), statistics.median(late)
    yield f"kernel CPU at turn {EARLY_TURN}", f"{first:.1f} µs", ""
    yield f"kernel CPU at turn {LATE_TURN:,}", f"{last:.1f} µs", ""
    yield "ratio", f"{last / first:.2f}", "at most 1.2"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    quick = parser.parse_args(arguments).quick
    parts = [
        folding(10_000 if quick else 100_000),
        opening(50_000 if quick else 1_000_000),
        size(100 if quick else LATE_TURN),
        cpu(2 if quick else 10),
    ]
    for part in parts:
        for name, found, bound in part:
            print(f"{name:<46} {found:>14}   {bound}".rstrip(), flush=True)
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
