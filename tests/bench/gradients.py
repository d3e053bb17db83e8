"""ResNet-50's gradients against DDP on gloo, 1,000 small tensors in other orders, an idle job."""

import contextlib
import json
import math
import os
import statistics
import subprocess
import tempfile
import time

import processes
import program_run
import step

NAME = "gradients"
TITLE = "gradients: ResNet-50's list through DistributedOptimizer, small tensors, nothing at all"
STEPS = 30
IDLE = 30  # seconds
# Pairs of blocks with and without it, of so many steps each: to begin and end a timeline takes time
# of its own, which a job has once and which is not counted.
TIMELINE_BLOCKS = 12
TIMELINE_STEPS = 24
TIMELINE_JOBS = 2  # a turn: one alone would take more than step.LIMIT where a step takes 250 ms
SPAN_BLOCKS = 9  # pairs of small_tensors.cpp
REDUCTIONS = 50_000  # in a block of small_tensors.cpp with or without a timeline
WARM_UP = 3  # steps, of step.cpp
# What must hold; bench.py ends with exit code 1 where it does not.
LEAST_RATIO = 3.0  # of DDP's cost of a step to ours
MOST_TIMELINE = 2.0  # % of a step: of its CPU time, and of its wall time as far as that can be told
MOST_IDLE = {"ranks": 0.05, "hvdrun": 0.5}  # ms of CPU of all processes of a kind in IDLE seconds
FAILURES = []


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
                seconds, *more = (float(word) for word in step.job(build, ranks, program))
                found[name].append(1e3 * seconds)
                if more and more[0] > 0:
                    FAILURES.append(f"{NAME}: np={ranks}: {more[0]:.0f} negotiations of small tensors, not 0")
                negotiated = f", {more[0]:.0f} negotiations in the counted steps" if more else ""
                report(f"small tensors np={ranks}: round {turn + 1}: {name}: {1e3 * seconds:.2f} ms{negotiated}")
        ours, peer = (statistics.median(found[name]) for name in programs)
        note = "1,000 of 1 KiB by name, each rank in its own order, one step; "
        note += "PyTorch's gloo, async_op, all ranks in one order"
        rows.append(row(f"np={ranks} 1,000 small", "ms", ours, "gloo", peer, note))
    return rows


def interval(values):
    """Of the median of what these were drawn from, with a confidence of 95 %, by the sign test."""
    values = sorted(values)
    count = len(values)
    tail, outside = 0.0, 0  # how probable it is that at most so many lie on one side of the median
    while outside < count // 2:
        tail += math.comb(count, outside) / 2**count
        if tail > 0.025:
            break
        outside += 1
    cut = max(0, outside - 1)
    return values[cut], values[-1 - cut]


def cost_of_a_span(build, report):
    """Microseconds of CPU that a span in a timeline takes, of all threads of the rank and of hvdrun's processes.

    A step's wall time wanders by more than a timeline costs; the CPU time of a rank that does nothing else does not.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/t.json"
        command = [f"{build}/hvdrun", "--tag-output", "off", "-np", "1", "--timeline-filename", "DYNAMIC"]
        command += [f"{build}/bench/small_tensors", "timeline", str(SPAN_BLOCKS), file]
        blocks = []
        # Of a few lines at most, so that it may wait to be read.
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as job:
            with contextlib.suppress(FileNotFoundError):  # a process has ended; the exit code says how
                while job.stdout.readline():
                    begun, _ = ran(processes.tree(job.pid))
                    if not job.stdout.readline():
                        break
                    blocks.append(ran(processes.tree(job.pid))[0] - begun)
            said = job.stderr.read()
        if job.returncode != 0 or len(blocks) != 2 * SPAN_BLOCKS:
            how = f"{program_run.how_it_ended(job.returncode)}, {len(blocks)} of {2 * SPAN_BLOCKS} blocks"
            raise program_run.Failed(command, how, said)
        spans = sum(span_counts(file).values())  # of the last session
    if spans < REDUCTIONS:
        raise RuntimeError(f"a timeline of {REDUCTIONS} reductions has {spans} spans")
    cost = statistics.median((on - off) / 1e3 for on, off in zip(blocks[::2], blocks[1::2])) / spans
    report(
        f"timeline: a span costs {cost:.2f} us of CPU: {spans} spans a block, blocks of "
        + ", ".join(f"{block / 1e6:.0f}" for block in blocks)
        + " ms of CPU with and without it in turn"
    )
    return cost


def span_counts(file):
    """How many spans each rank has."""
    counts = {}
    with open(file, encoding="utf-8") as text:
        for event in json.load(text):
            if event["ph"] == "X":
                counts[event["pid"]] = counts.get(event["pid"], 0) + 1
    return counts


def timeline(build, rounds, report):
    """What the timeline costs a step, and how much of the collectives backward hides, by it."""
    rows = []
    microseconds = cost_of_a_span(build, report)
    for ranks in step.RANKS:
        costs = []
        hidden = []
        free = []
        steps = []  # milliseconds of one
        spans = []  # of all ranks in it
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/t.json"
            for turn in range(max(1, rounds // 3)):
                program = [f"{build}/bench/step", "mlp", str(TIMELINE_BLOCKS), str(TIMELINE_STEPS), file]
                for _ in range(TIMELINE_JOBS):
                    words = [float(word) for word in step.job(build, ranks, program, ("--timeline-filename", "DYNAMIC"))]
                    costs += [100 * (on - off) / off for on, off in zip(words[::2], words[1::2])]
                    on, off = (1e3 * statistics.median(words[kind::2]) for kind in (0, 1))
                    report(f"timeline np={ranks}: round {turn + 1}: {on:.2f} ms a step with it, {off:.2f} without")
                program = [f"{build}/bench/step", "mlp", str(step.BLOCKS), str(step.STEPS)]
                on, off = step.run(build, program, ranks, ("--timeline-filename", file))
                collectives, within = collective_milliseconds(file, ranks)
                steps.append(on)
                spans.append(sum(span_counts(file).values()) / (step.BLOCKS * step.STEPS + WARM_UP))
                hidden.append(100 * within / collectives)
                free.append(100 * (1 - (on - off) / collectives))
                report(
                    f"overlap np={ranks}: {collectives:.1f} ms of collectives a step, {within:.1f} of it within"
                    f" backward; {on - off:.1f} ms longer"
                )
        least, most = interval(costs)
        spread = f"{least:.2f} to {most:.2f} % with a confidence of 95 %"
        report(f"timeline np={ranks}: {statistics.median(costs):.2f} % of a fast step, {spread}, {len(costs)} pairs")
        if least > MOST_TIMELINE:
            FAILURES.append(
                f"{NAME}: np={ranks}: a timeline costs {statistics.median(costs):.2f} % of a step"
                f" ({spread}), not at most {MOST_TIMELINE:.0f}"
            )
        cores = min(ranks, len(os.sched_getaffinity(0)))
        share = statistics.median(spans) * microseconds / (1e3 * statistics.median(steps) * cores) * 100
        if share > MOST_TIMELINE:
            FAILURES.append(
                f"{NAME}: np={ranks}: a timeline takes {share:.2f} % of a step's CPU time,"
                f" not at most {MOST_TIMELINE:.0f}"
            )
        note = f"{statistics.median(spans):.0f} spans of all ranks in a step of the MLP, {microseconds:.2f} us of CPU each, "
        note += f"those of hvdrun's own processes too, of the step's time on {cores} cores"
        rows.append(row(f"np={ranks} timeline's CPU", "%", share, "-", None, note))
        note = f"fast steps of the MLP, {len(costs)} pairs of blocks of {TIMELINE_STEPS} with and without it; {spread}"
        rows.append(row(f"np={ranks} timeline costs", "%", statistics.median(costs), "-", None, note))
        note = "of the time in collectives, what is within backward, both by the timeline"
        rows.append(row(f"np={ranks} overlap", "%", statistics.median(hidden), "-", None, note))
        note = "of the time in collectives, what the step does not take longer for"
        rows.append(row(f"np={ranks} for nothing", "%", statistics.median(free), "-", None, note))
    return rows


def collective_milliseconds(file, ranks):
    """Of a rank and a step of those that communicate: in collectives, and of that while backward ran."""
    with open(file, encoding="utf-8") as text:
        events = json.load(text)
    steps = step.BLOCKS * step.STEPS + WARM_UP
    buckets = {
        event["tid"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name" and ".bucket." in event["args"]["name"]
    }
    took = within = 0
    for rank in range(ranks):
        spans = [event for event in events if event["ph"] == "X" and event["pid"] == rank]
        backward = [(s["ts"], s["ts"] + s["dur"]) for s in spans if s["name"] == "BACKWARD"]
        if not backward:
            raise RuntimeError(f"{file} has no backward of rank {rank}")
        for span in spans:
            if span["name"] != "ALLREDUCE" or span["tid"] not in buckets:
                continue
            took += span["dur"]
            first, last = span["ts"], span["ts"] + span["dur"]
            within += sum(max(0, min(end, last) - max(begin, first)) for begin, end in backward)
    return took / 1e3 / steps / ranks, within / 1e3 / steps / ranks


def ran(pids):
    """(nanoseconds on a CPU, times that it was given one) of these processes' threads, as the kernel counts."""
    nanoseconds = switches = 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                on_cpu, _, times = (int(word) for word in file.read().split())
            nanoseconds += on_cpu
            switches += times
    return nanoseconds, switches


def idle(build, report):
    """What four ranks that sleep, and hvdrun's own processes, do in a while."""
    command = [f"{build}/hvdrun", "-np", "4", f"{build}/bench/small_tensors", "idle", str(IDLE + 10)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as job:
        try:
            found = processes.wait_for(job.pid, "small_tensors", 4, 20)
            if found is None:
                raise program_run.Failed(command, "its ranks have not started", "see above")
            time.sleep(3)  # init is over
            found = processes.tree(job.pid)
            kinds = {
                "ranks": [pid for pid in found if processes.program_of(pid) == "small_tensors"],
                "hvdrun": [pid for pid in found if processes.program_of(pid) != "small_tensors"],
            }
            before = {kind: ran(pids) for kind, pids in kinds.items()}
            time.sleep(IDLE)
            after = {kind: ran(pids) for kind, pids in kinds.items()}
        except FileNotFoundError:
            raise program_run.Failed(command, "a process of it has ended meanwhile", "see above") from None
        finally:
            job.terminate()
    rows = []
    for kind, pids in kinds.items():
        milliseconds = (after[kind][0] - before[kind][0]) / 1e6
        times = after[kind][1] - before[kind][1]
        if milliseconds > MOST_IDLE[kind]:
            FAILURES.append(f"{NAME}: {kind} of an idle job used {milliseconds:.3f} ms of CPU")
        report(f"idle: {kind}: {milliseconds:.3f} ms of CPU, {times} wake-ups of {len(pids)} processes in {IDLE} s")
        note = f"CPU of all threads of {len(pids)} processes in {IDLE} s after init, by /proc/*/schedstat; {times} wake-ups"
        rows.append(row(f"idle {kind}", "ms", milliseconds, "-", None, note))
    return rows


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
    FAILURES.clear()
    rows = step.measure(build, rounds, report, "gradients")
    for one in rows:
        if one["case"].endswith("parameters=25M") and one["ratio"] is not None and one["ratio"] < LEAST_RATIO:
            FAILURES.append(
                f"{NAME}: {one['case']}: {one['ratio']:.2f} times less than DDP, not {LEAST_RATIO:.0f}"
            )
    rows += small_tensors(build, rounds, report)
    rows += timeline(build, rounds, report)
    return rows + idle(build, report)
