"""ResNet-50's gradients against DDP on gloo, 1,000 small tensors in other orders, an idle job."""

import json
import resource
import statistics
import tempfile

import step

NAME = "gradients"
TITLE = "gradients: ResNet-50's list through DistributedOptimizer, small tensors, nothing at all"
STEPS = 30
IDLE = 10  # seconds
WARM_UP = 3  # steps, of step.cpp


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
                negotiated = f", {more[0]:.0f} negotiations in the counted steps" if more else ""
                report(f"small tensors np={ranks}: round {turn + 1}: {name}: {1e3 * seconds:.2f} ms{negotiated}")
        ours, peer = (statistics.median(found[name]) for name in programs)
        note = "1,000 of 1 KiB by name, each rank in its own order, one step; "
        note += "PyTorch's gloo, async_op, all ranks in one order"
        rows.append(row(f"np={ranks} 1,000 small", "ms", ours, "gloo", peer, note))
    return rows


def timeline(build, rounds, report):
    """What the timeline costs a step, and how much of the collectives backward hides, by it."""
    rows = []
    for ranks in step.RANKS:
        found = {"off": [], "on": []}
        hidden = []
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/t.json"
            for turn in range(max(1, rounds // 3)):
                for which, options in (("off", ()), ("on", ("--timeline-filename", file))):
                    program = [f"{build}/bench/step", "mlp", str(step.BLOCKS), str(step.STEPS)]
                    on, off = step.run(build, program, ranks, options)
                    found[which].append(on)
                    report(f"timeline {which} np={ranks}: round {turn + 1}: {on:.1f} ms a step")
                collectives = collective_milliseconds(file, ranks)
                hidden.append(100 * (1 - (on - off) / collectives))
                report(f"overlap np={ranks}: {collectives:.1f} ms of collectives a step, {on - off:.1f} ms longer")
        on, off = (statistics.median(found[which]) for which in ("on", "off"))
        note = "a step of the MLP with the timeline less one without, of the latter"
        rows.append(row(f"np={ranks} timeline costs", "%", 100 * (on - off) / off, "-", None, note))
        note = "of the time in collectives, by the timeline, that the step does not take longer for"
        rows.append(row(f"np={ranks} overlap", "%", statistics.median(hidden), "-", None, note))
    return rows


def collective_milliseconds(file, ranks):
    """Of a rank and a step of those that communicate."""
    with open(file, encoding="utf-8") as text:
        events = json.load(text)
    steps = step.BLOCKS * step.STEPS + WARM_UP
    buckets = {
        event["tid"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name" and ".bucket." in event["args"]["name"]
    }
    took = sum(
        event["dur"]
        for event in events
        if event["ph"] == "X" and event["name"] == "ALLREDUCE" and event["tid"] in buckets
    )
    return took / 1e3 / steps / ranks


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def idle(build, report):
    """CPU time of all processes of a job: of one that idles less that of one that ends at once."""
    used = {}
    for seconds in (0, IDLE):
        before = cpu_seconds()
        step.job(build, 4, [f"{build}/bench/small_tensors", "idle", str(seconds)])
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
    rows += timeline(build, rounds, report)
    return rows + idle(build, report)
