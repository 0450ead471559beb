"""What folding a log costs beside decoding it, in machine instructions: the same on a busy machine as on an idle one.

    python -m benchmarks.folding [--records 3000]

Runs itself under valgrind's callgrind (see `instructions`), over the log of a session that calls a tool in every turn.
Exits with 1 if folding is dearer than it may be. By time the ratio is higher: folding goes through more memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import pathlib
import subprocess
import sys
import tempfile

from .instructions import counted, counted_instructions

RECORDS = 3_000
TIMES_MOST = 4.0


def work(kind: str, records: int) -> None:
    """Does one of the two, counted, when both have been done before."""
    from windlass.kernel import log

    from .kernel import decoded, worked

    lines = worked(records).lines
    log.fold_lines(lines)
    decoded(lines)
    gc.collect()
    gc.disable()
    with counted():
        log.fold_lines(lines) if kind == "fold" else decoded(lines)


def measured(kind: str, records: int) -> float:
    """Instructions for each record asked for."""
    with tempfile.TemporaryDirectory() as place:
        profile = pathlib.Path(place, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
        command += [sys.executable, "-m", "benchmarks.folding", "--inside", kind, "--records", str(records)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": "0"})
        return counted_instructions(profile) / records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--inside", choices=("fold", "decode"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        work(given.inside, given.records)
        return
    decode, fold = measured("decode", given.records), measured("fold", given.records)
    print(f"instructions for each record: decoded {decode:,.0f}, folded (decoding included) {fold:,.0f}")
    print(f"folding / decoding: {fold / decode:.2f} (at most {TIMES_MOST:g})")
    if fold / decode > TIMES_MOST:
        sys.exit(1)


if __name__ == "__main__":
    main()
