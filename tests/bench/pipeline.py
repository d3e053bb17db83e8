"""The image pipeline against libjpeg-turbo alone, over the same JPEGs."""

import statistics
import tempfile

import program_run

NAME = "pipeline"
TITLE = "JPEGs of 500x375 to batches of 32 x 3 x 224 x 224, images per second of one core"
# Enough that the first batches, in memory that the kernel clears for them, do not count: an epoch has
# thousands of images.
IMAGES = 1536
LIMIT = 300  # seconds for one run
PAUSE = 60  # ms for a batch: a model that is slower than one thread
# What the pipeline must reach of libjpeg-turbo's own speed.
LEAST_RATIO = 0.70
MOST_WAITED = 5.0  # % of the time, of a trainer that is slower than the pipeline
MOST_MEMORY = 1.1  # of what is promised
# What is timed: case, cosine transform, threads, what happens to an image, ms between batches.
CASES = [
    ("accurate, all augmentation", "accurate", 1, "all", 0),
    ("accurate, no colours", "accurate", 1, "colourless", 0),
    ("accurate, middle crop", "accurate", 1, "crop", 0),
    ("accurate, all, two threads", "accurate", 2, "all", 0),
    ("fast, all augmentation", "fast", 1, "all", 0),
    (f"a model of {PAUSE} ms a batch", "accurate", 1, "all", PAUSE),
]


def run(build, *arguments):
    """The numbers that image_pipeline prints."""
    command = [f"{build}/tests/bench/image_pipeline", *map(str, arguments)]
    return [float(word) for word in program_run.run(command, LIMIT).split()]


# What the last measure() has found too slow, a line each; then bench.py ends with exit code 1.
FAILURES = []


def row(case, unit, ours, peer="-", peer_value=None, ratio=None, note=""):
    keys = ("bench", "case", "unit", "ours", "peer", "peer_value", "ratio", "note")
    return dict(zip(keys, (NAME, case, unit, ours, peer, peer_value, ratio, note)))


def measure(build, rounds, report):
    with tempfile.TemporaryDirectory() as folder:
        mean = run(build, "make", folder, IMAGES)[0]
        bare = {case[0]: [] for case in CASES}
        found = {case[0]: [] for case in CASES}
        for turn in range(rounds + 1):
            for name, dct, threads, what, pause in CASES:
                # Right before it: a shared machine's speed changes within a minute.
                bare[name].append(run(build, "bare", folder, dct)[1])
                found[name].append(run(build, "pipeline", folder, dct, threads, what, pause))
            report(f"{NAME}: round {turn}" if turn else f"{NAME}: warm")
    rows = []
    slow = []
    wrong = []
    for name, dct, threads, _, pause in CASES:
        columns = list(zip(*found[name][1:]))  # wall, CPU, waited, grown, promised
        middle = [statistics.median(column) for column in columns]
        if pause:
            note = "of the time from batch to batch"
            note += f"; largest of the rounds {max(columns[2]):.2f}"
            rows.append(row(name, "% waited", middle[2], note=note))
            if middle[2] > MOST_WAITED:
                wrong.append(f"{NAME}: {name}: waited {middle[2]:.1f} %, not at most {MOST_WAITED:.0f}")
            continue
        alone = statistics.median(bare[name][1:])
        ratio = statistics.median(
            ours[1] / peers for ours, peers in zip(found[name][1:], bare[name][1:])
        )
        note = f"files of {mean / 1000:.0f} kB; {middle[0]:.0f} images/s of wall time"
        rows.append(row(name, "images/s", middle[1], "libjpeg-turbo", alone, ratio, note))
        if ratio < LEAST_RATIO:
            slow.append(f"{name}: {ratio:.2f}")
    grown, promised = (
        statistics.median(column) for column in list(zip(*found[CASES[0][0]][1:]))[3:]
    )
    rows.append(row("memory it takes", "MB", grown, "promised", promised, promised / grown))
    if grown > MOST_MEMORY * promised:
        wrong.append(f"{NAME}: takes {grown:.1f} MB where {promised:.1f} are promised")
    FAILURES[:] = ([failure(slow)] if slow else []) + wrong
    return rows


def failure(slow):
    return (
        f"{NAME}: below {LEAST_RATIO:.2f} of libjpeg-turbo's speed, which it must reach: "
        + ", ".join(slow)
    )
