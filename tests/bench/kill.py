"""From the SIGKILL of one of four ranks to the end of launcher and ranks."""

import os
import select
import signal
import statistics
import subprocess
import time

import launch
import processes
import program_run
from timing import text_in

NAME = "kill"
TITLE = "from SIGKILL of one of 4 ranks to the end of everything"
RANKS = 4
PER_ROUND = 20  # the tail of the distribution needs more than the rounds of the other benchmarks


def one(command):
    """Milliseconds; None when the job did not come up or did not end, which is told."""
    said = os.memfd_create("output")
    command = [*command, "/bin/sleep", "1000"]
    job = subprocess.Popen(
        command,
        env=launch.environment(),
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        process_group=0,
    )

    def without_a_figure(why):
        program_run.tell(program_run.Failed(command, why, text_in(said)))

    found = processes.wait_for(job.pid, "sleep", RANKS, launch.LIMIT) or []
    ranks = [pid for pid in found if processes.program_of(pid) == "sleep"]
    # The ends are waited for as events: looking through /proc again would be part of the figure.
    ends = {}
    for pid in [job.pid, *ranks]:
        try:
            ends[os.pidfd_open(pid)] = pid
        except OSError:
            pass
    try:
        if len(ranks) != RANKS:
            return without_a_figure("its ranks did not come up")
        begin = time.perf_counter()
        os.kill(ranks[2], signal.SIGKILL)
        left = set(ends)
        while left:
            ready, _, _ = select.select(list(left), [], [], launch.LIMIT)
            if not ready:
                return without_a_figure(f"it has not ended {launch.LIMIT} s after the death of a rank")
            left -= set(ready)
        return (time.perf_counter() - begin) * 1000
    finally:
        for fd in ends:
            os.close(fd)
        for pid in found:
            if processes.is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        job.wait()
        os.close(said)


def measure(build, rounds, report):
    peers = {name: row for name, row in launch.launchers(build).items() if "loop" not in name}
    values = {name: [] for name in peers}
    for turn in range(rounds):
        for _ in range(PER_ROUND):
            for name, (command, _) in peers.items():
                # Open MPI takes a second for each.
                if name == "Open MPI" and len(values[name]) >= rounds:
                    continue
                value = one(command(RANKS))
                if value is not None:
                    values[name].append(value)
        report(f"{NAME}: round {turn + 1} of {rounds}")
    rows = []
    for case, pick in (("median", statistics.median), ("p99", percentile99)):
        ours = pick(values["hvdrun"]) if values["hvdrun"] else None
        for name, (_, settings) in peers.items():
            if name == "hvdrun":
                continue
            value = pick(values[name]) if values[name] else None
            rows.append(
                {
                    "bench": NAME,
                    "case": case,
                    "unit": "ms",
                    "ours": ours,
                    "peer": name,
                    "peer_value": value,
                    "ratio": value / ours if value and ours else None,
                    "note": f"{settings}; {len(values['hvdrun'])} and {len(values[name])} kills",
                }
            )
    return rows


def percentile99(values):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
