"""What communication adds to a training step of 25 M parameters: ours against PyTorch's DDP on gloo."""

import os
import statistics

import program_run

NAME = "step"
TITLE = "communication in a training step: MLP of 25 M float32 parameters, batch 8, one thread a rank"
RANKS = [2, 4]
BLOCKS, STEPS = 4, 5  # of each kind, within one run of a program
LIMIT = 300  # seconds for one run
SETTINGS = []  # of ddp_step.py
NOTE = "PyTorch DDP, gloo on loopback, gradient_as_bucket_view"


def programs(build, model):
    return {
        "ours": [f"{build}/bench/step", model, str(BLOCKS), str(STEPS)],
        "PyTorch DDP": ["/usr/bin/python3", "tests/bench/ddp_step.py", model]
        + [str(BLOCKS), str(STEPS), *SETTINGS],
    }


def job(build, ranks, program, options=()):
    """The words that the ranks print."""
    command = [f"{build}/hvdrun", "--tag-output", "off", "-np", str(ranks)]
    command += ["-H", f"localhost:{ranks}", *options, *program]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return program_run.run(command, LIMIT, environment).split()


def run(build, program, ranks, options=()):
    """Milliseconds of a step with and without communication."""
    on, off = (1e3 * float(word) for word in job(build, ranks, program, options)[-2:])
    return on, off


def measure(build, rounds, report, model="mlp"):
    rows = []
    for ranks in RANKS:
        found = {name: [] for name in programs(build, model)}
        turns = max(1, rounds // 3)
        for turn in range(turns):
            for name, program in programs(build, model).items():
                found[name].append(run(build, program, ranks))
                on, off = found[name][-1]
                report(
                    f"{model} np={ranks}: round {turn + 1} of {turns}: {name}: "
                    f"{on:.1f} ms with communication, {off:.1f} without"
                )
        rows += rows_of(ranks, found, NAME if model == "mlp" else model)
    return rows


def rows_of(ranks, found, bench):
    def middle(name, value):
        return statistics.median(value(on, off) for on, off in found[name])

    kinds = {
        "parameters=25M": (lambda on, off: on - off, f"step with less step without; {NOTE}"),
        "step with": (lambda on, off: on, "the whole step"),
        "step without": (lambda on, off: off, "the same without communication"),
    }
    rows = []
    for case, (value, note) in kinds.items():
        ours, peer = middle("ours", value), middle("PyTorch DDP", value)
        rows.append(
            {
                "bench": bench,
                "case": f"np={ranks} {case}",
                "unit": "ms",
                "ours": ours,
                "peer": "PyTorch DDP",
                "peer_value": peer,
                "ratio": peer / ours if ours > 0 else None,
                "note": note,
            }
        )
    return rows
