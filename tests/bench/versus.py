"""Whether one build is as fast as another: both in turn until the ratio is known well enough.

    versus.py BEFORE AFTER [CASE...] [--minutes M]

BEFORE and AFTER are build folders with the same options, each of a clone of its own. A case is ready
when the 95 % interval of the median ratio AFTER/BEFORE is narrower than 3 %, or its minutes are over.
Exit code 1 when the lower end of an interval is above 1.03: then AFTER is surely slower.
"""

import argparse
import math
import os
import pathlib
import shlex
import statistics
import sys
import tempfile
import time

import collectives
import program_run
from timing import wall_seconds

WIDTH = 0.03
SLOWER = 1.03
FEWEST = 15  # pairs; below that an interval says little
LIMIT = 60  # seconds for one run
SIZES = {"4B": 4, "64KiB": 64 << 10, "64MiB": 64 << 20}


def launch(ranks):
    def seconds(build):
        command = [f"{build}/hvdrun", "-np", str(ranks), "-H", f"localhost:{ranks}", "/bin/true"]
        return wall_seconds(command, dict(os.environ), LIMIT)

    return seconds


def allreduce(size):
    def seconds(build):
        command = [f"{build}/hvdrun", "--tag-output", "off", "-np", "2", f"{build}/bench/hvd_collectives"]
        command += ["allreduce", str(size), str(collectives.rounds_of(size))]
        return float(program_run.run(command, LIMIT).split()[-1])

    return seconds


CASES = {f"launch-{ranks}": launch(ranks) for ranks in (1, 4, 64)}
CASES |= {f"allreduce-{name}": allreduce(size) for name, size in SIZES.items()}


def interval(ratios):
    """The 95 % interval of the median, from the order of the ratios alone: no shape is assumed."""
    ordered = sorted(ratios)
    reach = 1.96 * math.sqrt(len(ordered)) / 2
    low = max(0, math.floor(len(ordered) / 2 - reach))
    high = min(len(ordered) - 1, math.ceil(len(ordered) / 2 + reach))
    return ordered[low], ordered[high]


def compare(seconds, before, after, limit):
    """Times of both and the ratios of pairs; who is first changes from pair to pair."""
    for build in (before, after):
        seconds(build)
    times = {before: [], after: []}
    ratios = []
    end = time.monotonic() + limit
    while time.monotonic() < end:
        order = (before, after) if len(ratios) % 2 == 0 else (after, before)
        for build in order:
            times[build].append(seconds(build))
        ratios.append(times[after][-1] / times[before][-1])
        low, high = interval(ratios)
        if len(ratios) >= FEWEST and high - low < WIDTH:
            break
    return times, ratios


def libhvd(build):
    """The folder of the library: it has moved before."""
    return next(build.glob("worker/**/libhvd.so"))


def stripped_size(file):
    with tempfile.NamedTemporaryFile() as out:
        program_run.run(["strip", "-o", out.name, str(file)], LIMIT)
        return os.stat(out.name).st_size


def compile_collectives(build):
    """The same program for both, each with its own libhvd."""
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{build}/meson-uninstalled"}
    flags = program_run.run(["pkg-config", "--cflags", "--libs", "hvd"], LIMIT, environment)
    (build / "bench").mkdir(exist_ok=True)
    root = pathlib.Path(__file__).resolve().parents[2]
    command = ["g++", "-std=c++17", "-O3", f"-I{root}", f"{root}/tests/bench/hvd_collectives.cpp"]
    command += shlex.split(flags)
    command += [f"-Wl,-rpath,{libhvd(build).parent}", "-o", f"{build}/bench/hvd_collectives"]
    program_run.run(command, LIMIT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("after", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all unless given")
    parser.add_argument("--minutes", type=float, default=10, help="at most for each case; 10 unless given")
    given = parser.parse_args()
    for name in given.cases:
        if name not in CASES:
            parser.error(f"no case {name!r}; there are {', '.join(CASES)}")
    before, after = given.before, given.after

    print("| | before | after | after/before |\n|---|---|---|---|")
    files = {name: [build / name for build in (before, after)] for name in ("hvdrun", "hvd-agent")}
    files["libhvd.so"] = [libhvd(build) for build in (before, after)]
    for name, both in files.items():
        sizes = [stripped_size(file) for file in both]
        print(f"| {name}, bytes stripped | {sizes[0]} | {sizes[1]} | {sizes[1] / sizes[0]:.3f} |")
    slower = False
    for build in (before, after):
        compile_collectives(build)
    for name in given.cases or CASES:
        times, ratios = compare(CASES[name], before, after, given.minutes * 60)
        low, high = interval(ratios)
        slower = slower or low > SLOWER
        medians = [statistics.median(times[build]) * 1e6 for build in (before, after)]
        print(
            f"| {name}, us | {medians[0]:.1f} | {medians[1]:.1f} | {statistics.median(ratios):.3f} "
            f"({low:.3f} to {high:.3f}, {len(ratios)} pairs) |",
            flush=True,
        )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
