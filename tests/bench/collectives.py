"""How long one collective takes: the median over many rounds of the slowest rank's time."""

import os
import statistics
import tempfile

import program_run

KIB, MIB = 1 << 10, 1 << 20
SIZES = [4, KIB, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
RANKS = [2, 4]
LIMIT = 120  # seconds for one program
POLLING_LIMIT = 4 * MIB  # a gloo that polls can hang beyond what sockets hold
# What gloo_collectives.cpp can do each with: HVD_BENCH_GLOO -> as printed. No reducescatter: the
# only one that gloo has gives wrong sums for large buffers.
GLOO = {
    "allreduce": {
        "functions": "gloo::allreduce, ring",
        "bcube": "gloo::allreduce, bcube",
        "classes": "gloo::AllreduceHalvingDoubling",
        "polling": "gloo::AllreduceHalvingDoubling, busy polling",
    },
    "broadcast": {
        "functions": "gloo::broadcast",
        "classes": "gloo::BroadcastOneToAll",
        "polling": "gloo::BroadcastOneToAll, busy polling",
    },
    "allgather": {
        "functions": "gloo::allgather",
        "classes": "gloo::AllgatherRing",
        "polling": "gloo::AllgatherRing, busy polling",
    },
    "alltoall": {"functions": "gloo::alltoall"},
}


CORES = len(os.sched_getaffinity(0))
# As launch.py does: containers are root.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def rounds_of(size):
    """Rounds within one program: enough of the short ones, few of the long ones. It makes fewer when
    they take too long."""
    return max(25, min(2000, (256 * MIB) // (size + 64 * KIB)))


def programs(build):
    """name -> (command for n ranks, environment, settings as printed)."""
    launcher = lambda n: [f"{build}/hvdrun", "--tag-output", "off", "-np", str(n), "-H", f"localhost:{n}"]
    ours = lambda n: launcher(n) + [f"{build}/bench/hvd_collectives"]
    mpi = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
    mpi += ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
    return {
        "alloc": (ours, {"HVD_BENCH_MEMORY": "alloc"}, "hvd::alloc"),
        "heap": (ours, {"HVD_BENCH_MEMORY": "heap"}, "ordinary memory"),
        "Open MPI": (
            lambda n: mpi + ["-np", str(n), f"{build}/bench/openmpi_collectives"],
            AS_ROOT,
            "mpirun --bind-to none --mca pml ob1 --mca btl self,vader",
        ),
        "MPICH": (
            lambda n: ["mpiexec.hydra", "-n", str(n), f"{build}/bench/mpich_collectives"],
            {},
            "mpiexec.hydra",
        ),
        "PyTorch gloo": (
            lambda n: launcher(n) + ["/usr/bin/python3", "tests/bench/torch_collectives.py"],
            {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            "torch.distributed, one thread a rank",
        ),
        # Its settings are chosen for each case, see best_gloo().
        "gloo": (lambda n: launcher(n) + [f"{build}/bench/gloo_collectives"], {}, ""),
    }


def best_gloo(command, operation, ranks, size):
    """(environment, settings as printed) of gloo's fastest way here; each is tried once."""
    tried = {}
    for setting, note in GLOO[operation].items():
        # With more ranks than cores the one that polls keeps the one it waits for from running.
        few = ranks <= CORES
        if setting == "polling" and (not few or size > POLLING_LIMIT):
            continue
        environment = {"HVD_BENCH_GLOO": setting}
        tried[run(command, environment, operation, size) or LIMIT] = (environment, note)
    return tried[min(tried)]


def run(command, environment, operation, size):
    """Seconds, or None when the program did not give any, which is told."""
    with tempfile.TemporaryDirectory(prefix="hvd-bench-") as folder:
        return program_run.value_of(
            lambda said: float(said.split()[-1]),
            [*command, operation, str(size), str(rounds_of(size))],
            LIMIT,
            {**os.environ, **environment, "HVD_BENCH_FOLDER": folder},
        )


def measure_operation(operation, build, rounds, report):
    """Rows of one operation; programs alternate within each round."""
    rows = []
    peers = programs(build)
    if operation in ("reducescatter", "alltoall"):
        del peers["PyTorch gloo"]  # gloo in PyTorch 1.13 has neither
    if operation not in GLOO:
        del peers["gloo"]
    for ranks in RANKS:
        for size in SIZES:
            if "gloo" in peers:
                report(f"{operation} np={ranks} bytes={size}: settings of gloo")
                command = peers["gloo"][0]
                peers["gloo"] = (command, *best_gloo(command(ranks), operation, ranks, size))
            times = {name: [] for name in peers}
            floors = []
            for turn in range(rounds):
                report(f"{operation} np={ranks} bytes={size}: round {turn + 1} of {rounds}")
                for name, (command, environment, _) in peers.items():
                    times[name].append(run(command(ranks), environment, operation, size))
                if operation == "allreduce" and size >= 4 * MIB:
                    command, environment, _ = peers["heap"]
                    floors.append(run(command(ranks), environment, "floor", size))
            median = {
                name: statistics.median(good) if (good := [t for t in found if t]) else None
                for name, found in times.items()
            }
            if any(floors):
                median["floor"] = statistics.median(t for t in floors if t)
            rows += rows_of(operation, ranks, size, median, peers)
    return rows


def rows_of(operation, ranks, size, median, peers):
    """Ours in both memories against the best of the others, and against the floor; small ones of
    more ranks than cores also against those that do not spin as long as the best one."""
    others = {n: t for n, t in median.items() if n not in ("alloc", "heap", "floor") and t}
    best = min(others, key=others.get) if others else None
    rows = []
    for memory in ("alloc", "heap"):
        ours = median[memory]
        case = f"np={ranks} bytes={size} memory={memory}"
        against = [(best, others.get(best), peers[best][2] if best else "")]
        if ranks > CORES and size <= 4 * KIB:
            against += [(n, others[n], peers[n][2]) for n in ("MPICH", "gloo") if n in others and n != best]
        if "floor" in median and memory == "alloc":
            against.append(("floor", median["floor"], "each rank rewrites a buffer of its own"))
        for peer, value, note in against:
            rows.append(
                {
                    "bench": operation,
                    "case": case,
                    "unit": "us",
                    "ours": ours * 1e6 if ours else None,
                    "peer": peer or "none",
                    "peer_value": value * 1e6 if value else None,
                    "ratio": value / ours if ours and value else None,
                    "note": note,
                }
            )
    return rows


class Bench:
    """One operation as a benchmark of its own."""

    def __init__(self, operation):
        self.NAME = operation
        self.TITLE = f"{operation} of float32, the slowest rank's time; the best peer of each case"

    def measure(self, build, rounds, report):
        return measure_operation(self.NAME, build, rounds, report)


OPERATIONS = ["allreduce", "broadcast", "allgather", "reducescatter", "alltoall"]
BENCHES = [Bench(operation) for operation in OPERATIONS]
