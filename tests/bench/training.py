"""Training speed of two ranks against one, with one thread each: what the second core brings."""

import os
import re
import statistics

import program_run

NAME = "training"
TITLE = "MNIST CNN, images/s over all ranks, one thread for each rank"
EPOCH = re.compile(r"epoch +\d+/\d+ .*?([\d.]+) images/s")
LIMIT = 300  # seconds for one run


def images_per_second(build, data, ranks):
    """The median over the epochs of one run; the first one warms up and does not count."""
    command = [f"{build}/hvdrun", "-np", str(ranks), "-H", f"localhost:{ranks}"]
    command += [f"{build}/train", "--data-dir", data, "--epochs", "3", "--batch-size", "32"]
    said = program_run.run(command, LIMIT, {**os.environ, "OMP_NUM_THREADS": "1"}, both=True)
    speeds = [float(found) for found in EPOCH.findall(said)]
    if len(speeds) < 2:
        raise program_run.Failed(command, f"{len(speeds)} epochs, not 3", said)
    return statistics.median(speeds[1:])


def measure(build, rounds, report):
    data = "data/mnist"
    speeds = {1: [], 2: []}
    for turn in range(max(1, rounds // 3)):
        for ranks in speeds:
            speeds[ranks].append(images_per_second(build, data, ranks))
        report(f"{NAME}: round {turn + 1}")
    one, two = statistics.median(speeds[1]), statistics.median(speeds[2])
    return [
        {
            "bench": NAME,
            "case": "np 2",
            "unit": "images/s",
            "ours": two,
            "peer": "np 1",
            "peer_value": one,
            # Above 1: we are faster; 2 would be perfect.
            "ratio": two / one,
            "note": f"OMP_NUM_THREADS=1; efficiency {100 * two / one / 2:.0f} %",
        }
    ]
