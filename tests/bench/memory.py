"""What a launcher costs while 64 ranks run: the proportional memory of all its processes."""

import os
import statistics
import subprocess

import launch
import processes
import program_run
from timing import stop, text_in

NAME = "memory"
TITLE = "memory of all processes of the launcher at np 64"
RANKS = 64


def one(command):
    """KiB of PSS of the launcher's own processes; None when the ranks did not come up."""
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

    try:
        found = processes.wait_for(job.pid, "sleep", RANKS, launch.LIMIT)
        if found is None:
            return without_a_figure("its ranks did not come up")
        own = [pid for pid in found if processes.program_of(pid) != "sleep"]
        return sum(processes.pss_kib(pid) for pid in own)
    finally:
        stop(job.pid)
        job.returncode = 0  # reaped by stop()
        for pid in found or []:
            if processes.is_alive(pid):
                os.kill(pid, 9)
        os.close(said)


def measure(build, rounds, report):
    peers = {name: row for name, row in launch.launchers(build).items() if "loop" not in name}
    values = {name: [] for name in peers}
    for turn in range(rounds):
        for name, (command, _) in peers.items():
            value = one(command(RANKS))
            if value is not None:
                values[name].append(value / 1024)
        report(f"{NAME}: round {turn + 1} of {rounds}")
    ours = statistics.median(values["hvdrun"]) if values["hvdrun"] else None
    rows = []
    for name, (_, settings) in peers.items():
        if name == "hvdrun":
            continue
        value = statistics.median(values[name]) if values[name] else None
        rows.append(
            {
                "bench": NAME,
                "case": f"np {RANKS}",
                "unit": "MiB",
                "ours": ours,
                "peer": name,
                "peer_value": value,
                "ratio": value / ours if value and ours else None,
                "note": settings,
            }
        )
    return rows
