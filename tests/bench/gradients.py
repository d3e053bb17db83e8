"""ResNet-50's gradients against DDP on gloo, 1,000 small tensors in other orders, an idle job."""

import os
import resource
import statistics
import subprocess

import step

NAME = "gradients"
TITLE = "gradients: ResNet-50's list through DistributedOptimizer, small tensors, nothing at all"
STEPS = 30
IDLE = 10  # seconds


def job(build, ranks, program):
    command = [f"{build}/hvdrun", "--tag-output", "off", "-np", str(ranks)]
    command += ["-H", f"localhost:{ranks}", *program]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=step.LIMIT,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout.split()


def small_tensors(build, rounds, report):
    programs = {
        "ours": [f"{build}/bench/small_tensors", "order", str(STEPS)],
        "gloo": ["/usr/bin/python3", "tests/bench/small_tensors.py", str(STEPS)],
    }
    rows = []
    for ranks in step.RANKS:
        found = {name: [] for name in programs}
        for turn in range(max(1, rounds // 3)):
            for name, program in programs.items():
                seconds, *more = (float(word) for word in job(build, ranks, program))
                found[name].append(1e3 * seconds)
                negotiated = f", {more[0]:.0f} negotiations in the counted steps" if more else ""
                report(f"small tensors np={ranks}: round {turn + 1}: {name}: {1e3 * seconds:.2f} ms{negotiated}")
        ours, peer = (statistics.median(found[name]) for name in programs)
        note = "1,000 of 1 KiB by name, each rank in its own order, one step; "
        note += "PyTorch's gloo, async_op, all ranks in one order"
        rows.append(row(f"np={ranks} 1,000 small", "ms", ours, "gloo", peer, note))
    return rows


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def idle(build, report):
    """CPU time of all processes of a job: of one that idles less that of one that ends at once."""
    used = {}
    for seconds in (0, IDLE):
        before = cpu_seconds()
        job(build, 4, [f"{build}/bench/small_tensors", "idle", str(seconds)])
        used[seconds] = cpu_seconds() - before
    milliseconds = max(0.0, 1e3 * (used[IDLE] - used[0]))
    report(f"idle np=4: {milliseconds:.1f} ms of CPU in {IDLE} s")
    note = f"CPU of hvdrun, its guard and 4 ranks in {IDLE} s after init, less that of a job that ends at once"
    return [row("np=4 idle", "ms", milliseconds, "-", None, note)]


def row(case, unit, ours, peer, value, note):
    return {
        "bench": NAME,
        "case": case,
        "unit": unit,
        "ours": ours,
        "peer": peer,
        "peer_value": value,
        "ratio": value / ours if value and ours > 0 else None,
        "note": note,
    }


def measure(build, rounds, report):
    rows = step.measure(build, rounds, report, "gradients")
    rows += small_tensors(build, rounds, report)
    return rows + idle(build, report)
