"""`python -m purigraph.bench.child WORKLOAD SIDE SIZE`: run one side once and print the memory that it used."""

from __future__ import annotations

import json
import sys

from purigraph.bench import workloads
from purigraph.memory import memory_now, memory_peak


def main() -> None:
    """Warm up on a tiny graph (to exclude libraries and compiled code), then measure."""
    workload, side, size = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    make = workloads.WORKLOADS[workload]
    make(num_nodes=64, num_edges=128, num_features=16, block=32, epochs=1).side(side)()
    before = memory_now()
    make(**size).side(side)()
    sys.stdout.write(json.dumps({"mb": max(memory_peak() - before, 0.0)}) + "\n")


if __name__ == "__main__":
    main()
