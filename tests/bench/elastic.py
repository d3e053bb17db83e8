"""From the loss of one of four ranks to the next step of all the others, beyond the step itself."""

import contextlib
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass

import hosts
import program_run

RANKS = 4
LIMIT = 120  # seconds until the others have gone on
MIB = 1 << 20
LEASE = 2  # seconds, of a cut cable
PYTHON = "/usr/bin/python3"  # Debian's, which has PyTorch


@dataclass(frozen=True)
class Case:
    name: str
    state: int = 10 * MIB  # bytes of each rank
    touched: int = 0  # by the victim, which the kernel has to free
    victim: int = 1  # its slot
    steps: int = 1  # between two commits
    peer: bool = False  # torchrun, too


HERE = [
    Case("10 MB of state", peer=True),
    Case("10 MB of state, victim 2 GiB", touched=2048 * MIB, peer=True),
    Case("1 GB of state, beyond its copy", state=1024 * MIB, steps=1_000_000),
]
ACROSS = [Case("three hosts, 10 MB of state"), Case("three hosts, 10 MB of state, victim 2 GiB", touched=2048 * MIB)]
CUT = Case(f"three hosts, a cut cable, beyond the lease of {LEASE} s", victim=3)


def process_of(slot):
    """The first process of the slot, by its number here: it may have another one where it runs."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text(encoding="ascii").strip() not in ("elastic_step", "python3"):
                continue
            variables = (folder / "environ").read_bytes().split(b"\0")
            if b"elastic_step" in (folder / "cmdline").read_bytes() and (
                {b"HVD_RANK=%d" % slot, b"HVD_START=0"} <= set(variables) or b"RANK=%d" % slot in variables
            ):
                return int(folder.name)
    raise program_run.Failed([f"slot {slot}"], "no such process")


def end_all(job, word):
    """The first process, and those with the word among theirs: workers may outlive their launcher, and hold its pipe."""
    job.kill()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word and word.encode() in (folder / "cmdline").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                os.kill(int(folder.name), signal.SIGKILL)


def started(command, environment=None):
    """A job that says its lines here while it runs."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def one(command, case, lose, environment=None, stop=None, word=None):
    """Milliseconds, or None, which is told. `lose` is called once the ranks have found their step, `stop` to end the
    job where a signal to its first process would not; `word` is in the command of each of its processes."""
    job = started(command, environment)
    said = []
    step = lost = None
    went_on = {}
    signal.signal(signal.SIGALRM, lambda *_: end_all(job, word))
    signal.alarm(LIMIT)
    try:
        for line in job.stdout:
            said.append(line)
            if (found := re.match(r"ready: step (\d+)", line)) and lost is None:
                step = int(found[1])
                lost = lose()
            if found := re.match(r"slot (\d+) went on at (\d+) copied (\d+)", line):
                if int(found[1]) != case.victim:
                    went_on.setdefault(found[1], int(found[2]) - int(found[3]))
            if len(went_on) == RANKS - 1:
                return (max(went_on.values()) - lost - step) / 1e6
    finally:
        signal.alarm(0)
        if stop:
            stop()
        elif word:
            end_all(job, word)
        else:
            job.send_signal(signal.SIGTERM)
        job.stdout.close()
        job.wait()
    program_run.tell(program_run.Failed(command, "the others did not go on", "".join(said)))
    return None


def kill(case):
    victim = process_of(case.victim)

    def lose():
        at = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        return at

    return lose


def ours(build, case, places=()):
    command = [os.path.abspath(f"{build}/hvdrun"), "-np", str(RANKS), "--min-np", str(RANKS - 1), "--tag-output", "off"]
    return [*command, *places, os.path.abspath(f"{build}/bench/elastic_step"), str(case.state), str(case.touched), str(case.steps)]


def torchrun(case, folder):
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(RANKS)]
    # Its own choice for these two fails with Python 3.11; there is no rank 9.
    command += ["--redirects", "9:1", "--tee", "9:1"]
    command += ["--max_restarts", "3", "--monitor_interval", "0.1", "tests/bench/elastic_step.py"]
    return [*command, str(case.state), str(case.touched), folder]


def on_this_machine(build, rounds, report):
    for case in HERE:
        values, peers = [], []
        for turn in range(rounds):
            report(f"elastic: {case.name}: round {turn + 1} of {rounds}")
            values.append(one(ours(build, case), case, lambda case=case: kill(case)()))
            # It takes seconds each time, which do not differ much.
            if case.peer and turn < 5:
                with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hvd-bench-") as folder:
                    peers.append(one(torchrun(case, folder), case, lambda case=case: kill(case)(), word=folder))
        yield from rows_of(case.name, values, "torchrun" if case.peer else None, peers)


def commits(build, rounds, report):
    """Microseconds of a commit of next to nothing: what is agreed on in it."""
    for ranks in (2, 4):
        report(f"elastic: commits of {ranks} ranks")
        command = [os.path.abspath(f"{build}/hvdrun"), "-np", str(ranks), "--min-np", "1", "--tag-output", "off"]
        command += [os.path.abspath(f"{build}/bench/elastic_step"), "commits"]
        times = []
        for _ in range(rounds):
            said = program_run.run(command, LIMIT)
            times.append(int(re.search(r"commit: (\d+)", said)[1]) / 1e3)
        yield {
            "bench": Here.NAME,
            "case": f"a commit of 8 bytes, np {ranks}, median of {len(times)}",
            "unit": "us",
            "ours": statistics.median(times),
            "peer": "none",
            "peer_value": None,
            "ratio": None,
            "note": "--min-np 1",
        }


def joined(build, state, how):
    """Milliseconds that three ranks lose when a fourth one comes on a new host, over their next two steps; and of a plain
    broadcast of the state to all four."""
    with tempfile.TemporaryDirectory(prefix="hvd-bench-") as folder:
        listed = pathlib.Path(folder) / "hosts"
        listed.write_text("a:3\n", encoding="ascii")
        command = [os.path.abspath(f"{build}/hvdrun"), "-np", "3", "--transport", "local", "--tag-output", "off"]
        command += ["--host-discovery-script", f"cat {listed}"]
        command += [os.path.abspath(f"{build}/bench/elastic_step"), str(state), "0", "1", *how]
        job = started(command)
        signal.signal(signal.SIGALRM, lambda *_: job.kill())
        signal.alarm(2 * LIMIT)
        said, two, step, plain = [], {}, None, None
        try:
            for line in job.stdout:
                said.append(line)
                if found := re.match(r"ready: step (\d+)", line):
                    step = int(found[1])
                    (pathlib.Path(folder) / "next").write_text("a:3\nb:1\n", encoding="ascii")
                    os.rename(f"{folder}/next", listed)
                if found := re.match(r"slot (\d+) took (\d+) for two steps", line):
                    two.setdefault(found[1], int(found[2]))
                if found := re.match(r"broadcast: (\d+)", line):
                    plain = int(found[1])
                if plain is not None and len(two) == 3:
                    return (max(two.values()) - 2 * step) / 1e6, plain / 1e6
        finally:
            signal.alarm(0)
            job.send_signal(signal.SIGTERM)
            job.stdout.close()
            job.wait()
        program_run.tell(program_run.Failed(command, "nobody came", "".join(said)))
        return None


def joins(build, rounds, report):
    for name, state, compute in (("10 MB", 10 * MIB, 50), ("1 GB", 1024 * MIB, 5000)):
        for what, how in (
            ("steps of nothing", ["overlap", "0"]),
            ("steps of nothing, state first", ["first", "0"]),
            (f"steps of {compute} ms", ["overlap", str(compute)]),
        ):
            lost, plain = [], []
            # A large state takes minutes each time, most of them before anybody comes.
            turns = rounds if state < 1024 * MIB else min(rounds, 5)
            for turn in range(turns):
                report(f"elastic: a newcomer, {name} of state, {what}: round {turn + 1} of {turns}")
                both = joined(build, state, how) or (None, None)
                lost.append(both[0])
                plain.append(both[1])
            yield from rows_of(f"a newcomer, {name} of state, {what}: the others lose", lost, "a plain broadcast", plain, "once")


def across_hosts(build, rounds, report):
    with hosts.Hosts(3) as machines:
        stop = lambda: machines.cluster("exec", "node1", "pkill", "-x", "hvdrun")
        places = ["-H", "node1:2,node2:1,node3:1"]
        for case in ACROSS:
            values = []
            for turn in range(rounds):
                report(f"elastic: {case.name}: round {turn + 1} of {rounds}")
                command = machines.command(ours(build, case, places))
                values.append(one(command, case, lambda case=case: kill(case)(), machines.environment, stop))
            yield from rows_of(case.name, values)
        with open(f"{machines.folder}/node3/pid", encoding="ascii") as pid:
            cable = ["nsenter", "-t", pid.read().strip(), "-n", "ip", "link", "set", "eth0"]

        def cut():
            at = time.monotonic_ns()
            program_run.run([*cable, "down"], LIMIT)
            return at + LEASE * 1_000_000_000

        values = []
        for turn in range(min(rounds, 5)):
            report(f"elastic: {CUT.name}: round {turn + 1}")
            command = machines.command(ours(build, CUT, [*places, "--lease", str(LEASE)]))
            values.append(one(command, CUT, cut, machines.environment, stop))
            time.sleep(LEASE + 1)  # what is left over there ends by itself
            program_run.run([*cable, "up"], LIMIT)
        yield from rows_of(CUT.name, values)


def rows_of(name, values, peer=None, peers=(), how="--monitor_interval 0.1"):
    values = [value for value in values if value is not None]
    peers = [value for value in peers if value is not None]
    for what, of in (("median", statistics.median), ("worst", max)):
        mine = of(values) if values else None
        other = of(peers) if peers else None
        yield {
            "bench": Here.NAME,
            "case": f"{name}, {what} of {len(values)}",
            "unit": "ms",
            "ours": mine,
            "peer": peer or "none",
            "peer_value": other,
            "ratio": other / mine if mine and other else None,
            "note": f"--min-np 3; {peer}: of {len(peers)}, {how}" if peer else "--min-np 3",
        }


class Here:
    NAME = "elastic"
    TITLE = "from SIGKILL of one of 4 ranks to the next step of the others, beyond the step"

    @staticmethod
    def measure(build, rounds, report):
        return [*commits(build, rounds, report), *joins(build, rounds, report), *on_this_machine(build, rounds, report)]


class Across:
    NAME = "hosts-elastic"
    TITLE = "from the loss of one of 4 ranks on three hosts to the next step of the others, beyond the step"

    @staticmethod
    def measure(build, rounds, report):
        return list(across_hosts(build, rounds, report))


BENCHES = [Here, Across]
