"""How many instructions a small allreduce takes on a rank that never waits: a count, not a time."""

import os
import re
import statistics
import tempfile

import program_run
from collectives import AS_ROOT, programs

NAME = "instructions"
TITLE = "instructions of rank 0 for one allreduce of float32, two ranks, counted by valgrind"
SIZES = [4, 1024, 4096]
FEW, MANY = 10_000, 50_000  # allreduces; start and end of the program cancel out
LIMIT = 120

# Only rank 0 is counted. It runs so slowly that the other one always waits for it.
COUNTED = """
if [ "${HVD_RANK:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 0 ]; then
  exec valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
    --log-file="$HVD_BENCH_LOG" "$@"
fi
exec "$@"
"""


def count(command, environment, size, rounds):
    """Instructions of the whole program, or None, which is told."""
    with tempfile.TemporaryDirectory(prefix="hvd-bench-") as folder:
        log = f"{folder}/log"
        *launcher, program = command
        words = [*launcher, "sh", "-c", COUNTED, "_", program, "instructions", str(size), str(rounds)]

        def counted(_):
            if not os.path.exists(log):
                raise ValueError(log)
            with open(log, encoding="utf-8") as text:
                found = re.search(r"I +refs: +([0-9,]+)", text.read())
            if not found:
                raise ValueError(log)
            return int(found.group(1).replace(",", ""))

        return program_run.value_of(counted, words, LIMIT, {**os.environ, **environment, "HVD_BENCH_LOG": log})


def measure(build, rounds, report):
    known = programs(build)
    rows = []
    for size in SIZES:
        each = {}
        for name in ("heap", "Open MPI", "MPICH"):
            command, environment, _ = known[name]
            counts = []
            for turn in range(min(rounds, 3)):
                report(f"{NAME} bytes={size}: {name}, round {turn + 1}")
                few, many = (count(command(2), environment, size, n) for n in (FEW, MANY))
                if few and many:
                    counts.append((many - few) / (MANY - FEW))
            each[name] = statistics.median(counts) if counts else None
        ours = each.pop("heap")
        for peer, value in each.items():
            rows.append(
                {
                    "bench": NAME,
                    "case": f"np=2 bytes={size}",
                    "unit": "instructions",
                    "ours": ours,
                    "peer": peer,
                    "peer_value": value,
                    "ratio": value / ours if ours and value else None,
                    "note": known[peer][2],
                }
            )
    return rows
