"""How long a launch of /bin/true takes, against the other launchers and the bare loop."""

import os
import statistics

import program_run
from timing import Hung, wall_seconds

NAME = "launch"
TITLE = "launch of /bin/true on this machine, wall time"
RANKS = [1, 4, 16, 64, 256]
LIMIT = 20  # seconds for one run


def launchers(build):
    """name -> (command in front of /bin/true for n ranks, settings as printed)."""
    return {
        "hvdrun": (
            lambda n: [f"{build}/hvdrun", "-np", str(n), "-H", f"localhost:{n}"],
            "hvdrun -np N -H localhost:N",
        ),
        "posix_spawn loop": (
            lambda n: [f"{build}/bench/spawn_loop", str(n)],
            "tests/bench/spawn_loop.cpp: no pipes, no supervision",
        ),
        "MPICH": (
            lambda n: ["mpiexec.hydra", "-n", str(n)],
            "mpiexec.hydra -n N",
        ),
        "Open MPI": (
            lambda n: ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np", str(n)],
            "mpirun --oversubscribe --bind-to none -np N",
        ),
    }


def environment():
    # Open MPI refuses to run as root without these.
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def measure(build, rounds, report):
    """One row for each peer and number of ranks."""
    programs = {
        name: (lambda n, command=command: command(n) + ["/bin/true"], settings)
        for name, (command, settings) in launchers(build).items()
    }
    return alternate(NAME, RANKS, programs, rounds, report)


def alternate(bench, all_ranks, peers, rounds, report):
    """One row for each peer and number of ranks; `peers` has whole commands."""
    rows = []
    for ranks in all_ranks:
        times = {name: [] for name in peers}
        hung = dict.fromkeys(peers, 0)
        given_up = set()
        # The first round warms up and does not count. Each round runs everybody once, so that a
        # slow moment of the machine meets all of them.
        for turn in range(rounds + 1):
            for name, (command, _) in peers.items():
                if name in given_up:
                    continue
                try:
                    seconds = wall_seconds(command(ranks), environment(), LIMIT)
                except Hung as failed:
                    program_run.tell(failed)
                    hung[name] += 1
                    # A launcher that hangs costs LIMIT each time; three times say enough.
                    if hung[name] >= 3:
                        given_up.add(name)
                    continue
                if turn > 0:
                    times[name].append(seconds * 1000)
            report(f"{bench} np {ranks}: round {turn} of {rounds}")
        rows += compare(bench, ranks, times, hung, peers)
    return rows


def compare(bench, ranks, times, hung, peers):
    ours = statistics.median(times["hvdrun"]) if times["hvdrun"] else None
    for name, (_, settings) in peers.items():
        if name == "hvdrun":
            continue
        value = statistics.median(times[name]) if times[name] else None
        notes = [settings]
        for who in ("hvdrun", name):
            if hung[who]:
                notes.append(f"{who} hung {hung[who]} times for more than {LIMIT} s")
        yield {
            "bench": bench,
            "case": f"np {ranks}",
            "unit": "ms",
            "ours": ours,
            "peer": name,
            "peer_value": value,
            # Above 1: we need less time.
            "ratio": value / ours if value and ours else None,
            "note": "; ".join(notes),
        }
