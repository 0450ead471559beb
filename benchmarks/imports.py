"""What it costs to import the package: CPU time of a fresh interpreter, the least of ten runs each.

Run it with `python -m benchmarks.imports`. The bounds are differences to `import msgspec` in the same run.
"""

from __future__ import annotations

import resource
import subprocess
import sys

RUNS = 10
BOUND_MS = 60
CASES = {
    "import msgspec": "import msgspec",
    "import windlass": "import msgspec, windlass",
    "Agent, tool and open": "import msgspec, windlass; windlass.Agent; windlass.tool; windlass.open",
}


def cpu_ms(code: str) -> float:
    """The least CPU time that a fresh interpreter took for some code, in milliseconds."""
    least = float("inf")
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least * 1000


def main() -> int:
    base = cpu_ms(CASES["import msgspec"])
    print(f"{'import msgspec':<24} {base:6.1f} ms")
    worst = 0.0
    for name in list(CASES)[1:]:
        more = cpu_ms(CASES[name]) - base
        worst = max(worst, more)
        print(f"{name:<24} {more:+6.1f} ms   bound +{BOUND_MS} ms")
    return 0 if worst <= BOUND_MS else 1


if __name__ == "__main__":
    sys.exit(main())
