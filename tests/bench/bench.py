"""Runs benchmarks and prints a table with the peers of the same run. Called by scripts/bench."""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

import collectives
import elastic
import gradients
import hosts
import http_store
import init
import instructions
import kill
import launch
import memory
import peer_copy
import pipeline
import program_run
import step
import swarm
import train_speed
import training

BENCHES = {
    bench.NAME: bench
    for bench in (launch, init, memory, kill, *elastic.BENCHES, http_store, *collectives.BENCHES, instructions, peer_copy, step, gradients, training, *train_speed.BENCHES, pipeline, swarm, *hosts.BENCHES)
}


def first_line(*command):
    """The first line of a program's output, or why there is none."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except OSError:
        return "not installed"
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "no answer"


def package_version(name):
    return first_line("dpkg-query", "-W", "-f=${Version}", name)


def machine(build):
    """The lines that a figure needs to mean something."""
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return [
        f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        f"CPU: {cpu}, {len(os.sched_getaffinity(0))} usable cores, kernel {os.uname().release.split('-')[0]}",
        f"load before the run (1, 5, 15 min): {load}",
        f"hvdrun: {first_line(f'{build}/hvdrun', '--version')}, "
        f"commit {first_line('git', 'describe', '--always', '--dirty')}",
        f"peers: Open MPI {package_version('openmpi-bin')}, MPICH {package_version('mpich')}, "
        f"gloo {package_version('libgloo-dev')}, LibTorch and PyTorch {package_version('libtorch-dev')}",
    ]


def number(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def table(rows):
    """A Markdown table, aligned so that it can be read in a terminal."""
    cells = [["case", "unit", "ours", "peer", "peer's", "ratio", "settings and remarks"]]
    for row in rows:
        cells.append(
            [row["case"], row["unit"], number(row["ours"]), row["peer"]]
            + [number(row["peer_value"]), number(row["ratio"]), row["note"]]
        )
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="one of: " + ", ".join(BENCHES))
    parser.add_argument("--build-dir", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds (9 unless given)")
    options = parser.parse_args()
    rows = []
    failures = []
    print("\n".join(machine(options.build_dir)), flush=True)
    print("ratio: above 1, hvdrun is better; medians of alternating rounds", flush=True)
    for name in options.names or BENCHES:
        bench = BENCHES[name]
        try:
            found = bench.measure(
                options.build_dir, options.rounds, lambda line: print(line, file=sys.stderr, flush=True)
            )
        except program_run.Failed as failed:
            # The others' figures are worth something all the same.
            failures.append(f"{name}: a program failed; {failed}")
            print(f"FAILED: {failures[-1]}", file=sys.stderr, flush=True)
            continue
        rows += found
        failures += getattr(bench, "FAILURES", [])
        print(f"\n{bench.NAME}: {bench.TITLE}\n\n{table(found)}", flush=True)
    print(f"\nload after the run (1, 5, 15 min): {' '.join(f'{v:.2f}' for v in os.getloadavg())}")
    if options.json:
        keys = ["bench", "case", "unit", "ours", "peer", "peer_value", "ratio"]
        rows = [{key: row[key] for key in keys} for row in rows]
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for line in failures:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
