"""Requests per second that Horovod's store answers, each on a new connection."""

import os
import pathlib
import statistics
import subprocess
import sys

import program_run

NAME = "http"
TITLE = "Horovod's store: requests answered per second, each on a new connection"
CASES = [("GET", 1), ("GET", 32), ("PUT", 32)]
SECONDS = 2  # of one turn


def load(build):
    return f"{build}/bench/http_load"


def answered(command, environment=None):
    """Requests per second, and how many were not answered or not rightly."""
    rate, lost = program_run.run(command, 120, environment).split(":")[-1].split()
    return float(rate), int(lost)


def measure(build, rounds, report):
    """One row for each case."""
    server = subprocess.Popen(
        [sys.executable, str(pathlib.Path(__file__).with_name("kv_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = server.stdout.readline().strip()
        if not port:
            raise program_run.Failed(server.args, program_run.how_it_ended(server.wait()), "see above")
        return [one(build, port, *case, rounds, report) for case in CASES]
    finally:
        server.stdin.close()
        server.wait()


def one(build, port, method, clients, rounds, report):
    what = [method, str(clients), str(SECONDS)]
    ours, theirs = [], []
    lost = [0, 0]
    for turn in range(rounds + 1):
        pair = [
            # The store lives as long as its job: the client is the job.
            answered([f"{build}/hvdrun", "-np", "1", load(build), "env", "env", *what], os.environ),
            answered([load(build), "127.0.0.1", port, *what]),
        ]
        report(f"{NAME} {method} {clients}: round {turn} of {rounds}")
        for i, (_, gone) in enumerate(pair):
            lost[i] += gone
        if turn > 0:
            ours.append(pair[0][0])
            theirs.append(pair[1][0])
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    note = "requests lost: " + (f"ours {lost[0]}, theirs {lost[1]}" if any(lost) else "none")
    return {
        "bench": NAME,
        "case": f"{method}, {clients} client{'s' if clients > 1 else ''}",
        "unit": "requests/s",
        "ours": ours,
        "peer": "Python HTTP store",
        "peer_value": theirs,
        "ratio": ours / theirs,
        "note": note,
    }
