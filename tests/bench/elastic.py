"""From the SIGKILL of one of four ranks to the next step of all the others, beyond the step itself."""

import os
import re
import signal
import statistics
import subprocess
import time

import program_run

NAME = "elastic"
TITLE = "from SIGKILL of one of 4 ranks to the next step of the others, beyond the step"
RANKS = 4
LIMIT = 60  # seconds until the others have gone on
MIB = 1 << 20
# State of each rank, memory that the victim has touched.
CASES = {"10 MB of state": (10 * MIB, 0), "10 MB of state, victim 2 GiB": (10 * MIB, 2048 * MIB)}


def one(build, state, touched):
    """Milliseconds, or None, which is told."""
    command = [f"{build}/hvdrun", "-np", str(RANKS), "--min-np", str(RANKS - 1), "--tag-output", "off"]
    command += [f"{build}/bench/elastic_step", str(state), str(touched)]
    job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = []
    victim = step = killed = None
    went_on = {}
    try:
        for line in job.stdout:
            said.append(line)
            if found := re.match(r"pid (\d+) slot 1", line):
                victim = victim or int(found[1])
            if found := re.match(r"ready: step (\d+)", line):
                step = int(found[1])
                killed = time.monotonic_ns()
                os.kill(victim, signal.SIGKILL)
                signal.alarm(LIMIT)
            if found := re.match(r"slot ([^1]) went on at (\d+)", line):
                went_on.setdefault(found[1], int(found[2]))
            if len(went_on) == RANKS - 1:
                return (max(went_on.values()) - killed - step) / 1e6
    finally:
        signal.alarm(0)
        job.send_signal(signal.SIGTERM)
        job.stdout.close()
        job.wait()
    program_run.tell(program_run.Failed(command, "the others did not go on", "".join(said)))
    return None


def measure(build, rounds, report):
    rows = []
    for case, (state, touched) in CASES.items():
        values = []
        for turn in range(rounds):
            report(f"{NAME}: {case}: round {turn + 1} of {rounds}")
            value = one(build, state, touched)
            if value is not None:
                values.append(value)
        for what, of in (("median", statistics.median), ("worst", max)):
            value = of(values) if values else None
            rows.append({"bench": NAME, "case": f"{case}, {what} of {len(values)}", "unit": "ms", "ours": value,
                         "peer": "none", "peer_value": None, "ratio": None, "note": "--min-np 3"})
    return rows
