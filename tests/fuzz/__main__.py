"""The command line: see the package."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from . import Fault, cases, try_case
from .targets import TARGETS


def main() -> int:
    """Try until the time is up; the exit status says whether there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=TARGETS, help="one target")
    parser.add_argument("--case", type=int, help="one case of it, to see a fault again")
    parser.add_argument("--faults", type=int, default=20, help="stop after so many faults")
    arguments = parser.parse_args()
    chosen = {name: target for name, target in TARGETS.items() if arguments.only in (None, name)}
    if arguments.case is not None:
        found = [try_case(name, target, arguments.seed, arguments.case) for name, target in chosen.items()]
        print(*found, sep="\n")
        return any(isinstance(one, Fault) for one in found)
    counts: Counter[tuple[str, str]] = Counter()
    seen: Counter[str] = Counter()
    for name, result in cases(chosen, arguments.seed, seconds=60 * arguments.minutes):
        if not isinstance(result, Fault):
            counts[name, result] += 1
            continue
        counts[name, "faults"] += 1
        last_lines = "\n".join(result.trace.strip().splitlines()[-3:])
        seen[last_lines] += 1
        if seen[last_lines] == 1:
            print(result, flush=True)
        if len(seen) >= arguments.faults:
            break
    for (name, result), count in sorted(counts.items()):
        print(f"{name:10} {result:10} {count}")
    return bool(seen)


if __name__ == "__main__":
    sys.exit(main())
