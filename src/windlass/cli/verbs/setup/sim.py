"""`windlass sim SEED`: lives through one simulated world and says what happened, or which rule it broke.

Thin: it calls the simulator and prints.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXAMPLES = """examples:
  windlass sim 42                    the world of seed 42: trouble first, then peace in which all must come to its end
  windlass sim 42 --trace            the same, with every step
  windlass sim 42 --mode safety      trouble only
  windlass sim 0 --seeds 1000        a sweep; stops at the first seed that breaks a rule
"""

PLACES_SHOWN_MAX = 100
KINDS = {
    "trees": "a world whose sessions have others work for them",
    "flows": "a world whose sessions carry out workflows",
    "grants": "a world of trees whose children ask for more budget, and are given it",
    "talks": "a world of trees whose sessions tell each other things, and read what their parents saw",
    "machines": "a world whose sessions go through state machines",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("seed", type=int, metavar="SEED", help="decides everything that happens")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many seeds, beginning with this one")
    parser.add_argument("--steps", type=int, metavar="N", help="how many acts of the world with faults (200)")
    parser.add_argument(
        "--mode",
        choices=("safety", "liveness"),
        default="liveness",
        help="safety: faults only; liveness: then they stop and everything owed must come to its end (default)",
    )
    kinds = parser.add_mutually_exclusive_group()
    for kind, told in KINDS.items():
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="plain", help=told)
    parser.add_argument("--trace", action="store_true", help="print every step")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.terminal.text import put, tell
    from windlass.cli.terminal.visible_text import visible
    from windlass.events.errors import UsageError
    from windlass.testing.simulator import STEPS_MIN, SimFailure, simulate

    steps = STEPS_MIN if args.steps is None else args.steps
    if steps < STEPS_MIN:
        raise UsageError(f"--steps {steps}: a world needs at least {STEPS_MIN} to get into trouble")
    if args.seeds < 1:
        raise UsageError(f"--seeds {args.seeds}: give a number from 1 up")
    for seed in range(args.seed, args.seed + args.seeds):
        try:
            with interruptible():
                lived = simulate(seed, steps=steps, mode=args.mode, trace=args.trace, kind=args.kind)
        except SimFailure as failure:
            for line in failure.trace:
                put(line)
            tell(visible(str(failure)), sys.stderr)
            return 1
        for line in lived.trace:
            put(line)
        tell(
            f"seed {seed}: no rule broken in {lived.steps} steps, {lived.runs} runs, {lived.crashes} crashes, "
            f"{lived.appends} appends, {lived.seconds:.0f} s of simulated time"
        )
        if args.seeds == 1:
            for place, count in sorted(lived.places.items())[:PLACES_SHOWN_MAX]:
                put(f"  {count:4d} {place}")
    return 0


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises `KeyboardInterrupt` for a Ctrl-C, whatever the world made of it: there it may come to a task, which dies
    without a reason then, and that is a broken rule."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before != signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield
    except Exception:
        if heard:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt
