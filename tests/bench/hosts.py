"""Launches and allreduces across hosts made of network namespaces, against the other launchers."""

import os
import statistics
import tempfile

import collectives
import program_run
from timing import wall_seconds

KIB, MIB = 1 << 10, 1 << 20
LIMIT = 60  # seconds for one run
LAUNCH_HOSTS = [4, 8, 32]
INIT_HOSTS = [4, 8, 32]
REDUCE_HOSTS = [2, 4]
SIZES = [4, KIB, 16 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
MPI_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Hosts:
    """node1 to nodeN; programs are started on node1."""

    def __init__(self, count):
        self.names = [f"node{i + 1}" for i in range(count)]

    def __enter__(self):
        self.parent = tempfile.TemporaryDirectory(prefix="hvd-bench-")
        self.folder = self.parent.name + "/hosts"
        self.environment = {**os.environ, "HVD_CLUSTER": self.folder}
        self.cluster("up", str(len(self.names)))
        with open(f"{self.folder}/node1/pid", encoding="ascii") as pid:
            self.first = pid.read().strip()
        return self

    def __exit__(self, *_):
        self.cluster("down")
        self.parent.cleanup()

    def cluster(self, *words):
        program_run.run(["scripts/cluster", *words], LIMIT, self.environment)

    def command(self, words, variables=()):
        """As `scripts/cluster exec node1` runs them, without the time that its shell takes."""
        own = {"PATH": os.environ["PATH"], "HOME": f"{self.folder}/node1/home", "TERM": "dumb"}
        own.update(variables)
        enter = ["nsenter", "-t", self.first, "-n", "-u", "-i", "-p", "-m", "-r", f"--wd={os.getcwd()}"]
        # A peer that hangs must not run on beside the next one.
        limit = ["timeout", "-k", "2", str(LIMIT - 5)]
        return [*enter, "--", *limit, "env", "-i", *(f"{name}={value}" for name, value in own.items()), *words]

    def shape(self, rate):
        """All hosts send at most at that rate. A larger burst would let whoever rests between rounds
        send 64 KiB for nothing."""
        for name in self.names:
            words = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate]
            words += ["burst", "32kb", "latency", "50ms"]
            program_run.run(["scripts/cluster", "exec", name, *words], LIMIT, self.environment)


def seconds(hosts, command):
    try:
        return wall_seconds(command, hosts.environment, LIMIT)
    except program_run.Failed as failed:
        program_run.tell(failed)
        return None


def ours(build, names, slots=1):
    places = ",".join(f"{name}:{slots}" for name in names)
    return [os.path.abspath(f"{build}/hvdrun"), "--tag-output", "off", "-H", places]


def open_mpi(names):
    words = ["mpirun.openmpi", "--host", ",".join(names), "-np", str(len(names)), "--bind-to", "none"]
    return words + ["--mca", "btl", "tcp,self", "--mca", "pml", "ob1"]


def mpich(names):
    return ["mpiexec.hydra", "-launcher", "ssh", "-hosts", ",".join(names), "-n", str(len(names))]


def ssh_loop(names):
    """To the other hosts only: the launchers need no ssh for the first one either."""
    line = "".join(f"ssh -o BatchMode=yes {name} true & " for name in names[1:])
    return ["sh", "-c", line + "wait"]


def measure_walls(bench, counts, programs_of, rounds, report):
    """Wall times of commands on node1; programs_of(names): name -> (command, variables, settings)."""
    rows = []
    for count in counts:
        with Hosts(count) as hosts:
            programs = programs_of(hosts.names)
            times = {name: [] for name in programs}
            for turn in range(rounds + 1):
                report(f"{bench} {count} hosts: round {turn} of {rounds}")
                for name, (command, variables, _) in programs.items():
                    taken = seconds(hosts, hosts.command(command, variables.items()))
                    if turn > 0 and taken:
                        times[name].append(taken * 1000)
            notes = {name: note for name, (_, _, note) in programs.items()}
            rows += compared(bench, f"hosts={count}", "ms", times, notes, "hvdrun")
    return rows


class Launch:
    NAME = "hosts-launch"
    TITLE = "launch of /bin/true, one rank on each of several hosts, wall time"

    @staticmethod
    def measure(build, rounds, report):
        def programs(names):
            return {
                "hvdrun": (ours(build, names) + ["/bin/true"], {}, "agent in the hosts' caches"),
                "ssh loop": (ssh_loop(names), {}, "ssh HOST true & for each other host; wait"),
                "MPICH": (mpich(names) + ["/bin/true"], {}, "mpiexec.hydra -launcher ssh"),
                "Open MPI": (open_mpi(names) + ["/bin/true"], MPI_ROOT, "mpirun.openmpi --host"),
            }

        return measure_walls(Launch.NAME, LAUNCH_HOSTS, programs, rounds, report)


class Init:
    NAME = "hosts-init"
    TITLE = "launch, init, one barrier and the end, one rank on each of several hosts, wall time"

    @staticmethod
    def measure(build, rounds, report):
        bench = os.path.abspath(f"{build}/bench")

        def programs(names):
            mpi = open_mpi(names) + [f"{bench}/init_openmpi"]
            return {
                "hvdrun": (ours(build, names) + [f"{bench}/init_barrier"], {}, "agent in the hosts' caches"),
                "MPICH": (mpich(names) + [f"{bench}/init_mpich"], {}, "mpiexec.hydra -launcher ssh"),
                "Open MPI": (mpi, MPI_ROOT, "mpirun.openmpi, btl tcp,self"),
            }

        return measure_walls(Init.NAME, INIT_HOSTS, programs, rounds, report)


class Allreduce:
    NAME = "hosts-allreduce"
    TITLE = "allreduce of float32, one rank on each of several hosts, median of the slowest rank's times"

    @staticmethod
    def measure(build, rounds, report):
        rows = []
        for count in REDUCE_HOSTS:
            for rate in (None, "1gbit"):
                with Hosts(count) as hosts:
                    if rate:
                        hosts.shape(rate)
                    rows += Allreduce.of(build, hosts, rate or "unshaped", rounds, report)
        return rows

    @staticmethod
    def of(build, hosts, rate, rounds, report):
        names = hosts.names
        bench = os.path.abspath(f"{build}/bench")
        gloo = ours(build, names) + [f"{bench}/gloo_collectives"]
        programs = {
            "hvdrun": (ours(build, names) + [f"{bench}/hvd_collectives"], {"HVD_BENCH_MEMORY": "heap"}, "libhvd"),
            "Open MPI": (open_mpi(names) + [f"{bench}/openmpi_collectives"], MPI_ROOT, "btl tcp,self"),
            "MPICH": (mpich(names) + [f"{bench}/mpich_collectives"], {}, "mpiexec.hydra -launcher ssh"),
            "gloo ring": (gloo, {"HVD_BENCH_GLOO": "functions"}, "gloo::allreduce, ring"),
            "gloo halving": (gloo, {"HVD_BENCH_GLOO": "classes"}, "gloo::AllreduceHalvingDoubling"),
        }
        rows = []
        for size in SIZES:
            times = {name: [] for name in programs}
            for turn in range(rounds):
                report(f"{Allreduce.NAME} hosts={len(names)} {rate} bytes={size}: round {turn + 1} of {rounds}")
                for name, (command, variables, _) in programs.items():
                    taken = Allreduce.run(hosts, command, variables, size)
                    if taken:
                        times[name].append(taken * 1e6)
            notes = {name: note for name, (_, _, note) in programs.items()}
            case = f"hosts={len(names)} {rate} bytes={size}"
            rows += compared(Allreduce.NAME, case, "us", times, notes, "hvdrun")
        return rows

    @staticmethod
    def run(hosts, command, variables, size):
        words = [*command, "allreduce", str(size), str(collectives.rounds_of(size))]
        with tempfile.TemporaryDirectory(prefix="hvd-bench-") as folder:
            return program_run.value_of(
                lambda said: float(said.split()[-1]),
                hosts.command(words, [*variables.items(), ("HVD_BENCH_FOLDER", folder)]),
                LIMIT,
                hosts.environment,
            )


def compared(bench, case, unit, times, notes, own):
    """A row for each peer; a peer without a time gave none in any round."""
    median = {name: statistics.median(found) if found else None for name, found in times.items()}
    for name in times:
        if name == own:
            continue
        mine, value = median[own], median[name]
        yield {
            "bench": bench,
            "case": case,
            "unit": unit,
            "ours": mine,
            "peer": name,
            "peer_value": value,
            "ratio": value / mine if mine and value else None,
            "note": notes[name],
        }


BENCHES = [Launch, Init, Allreduce]
