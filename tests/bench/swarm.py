"""What thousands of agents cost the coordinator: CPU, memory and time until all ranks run, and after."""

import json

import program_run

NAME = "swarm"
TITLE = "fake agents with 8 ranks each against one coordinator, over TLS on loopback"
AGENTS = [1000, 3000, 10000]
SLOTS = 8
RUNS = 3  # of each; medians
# What the coordinator may take with 10,000 agents; less in proportion with fewer.
CPU_SECONDS = 5
MEMORY_MB = 400
# Until all agents have heard of the epoch without a lost host, of so many.
ELASTIC_AGENTS = 1000
ELASTIC_SECONDS = 1
PHASES = ["ready", "started", "joined", "released", "fetched", "heartbeats", "exited"]


def middle(values):
    return sorted(values)[len(values) // 2]


def measure(build, rounds, report):
    """Rows for each number of agents: CPU until all ranks have started, peak memory, and each phase."""
    rows = []
    for agents in AGENTS:
        runs = []
        for turn in range(min(RUNS, rounds)):
            said = program_run.run([f"{build}/tests/bench/swarm", str(agents), str(SLOTS)], 400)
            runs.append(json.loads(said))
            report(f"{NAME} {agents}: round {turn + 1} of {min(RUNS, rounds)}")
        rows += rows_of(agents, runs)
    return rows + elastic_rows(build, rounds, report)


def elastic_rows(build, rounds, report):
    runs = []
    for turn in range(min(RUNS, rounds)):
        command = [f"{build}/tests/bench/swarm", str(ELASTIC_AGENTS), str(SLOTS), "4", "1", "elastic"]
        runs.append(json.loads(program_run.run(command, 400)))
        report(f"{NAME} elastic: round {turn + 1} of {min(RUNS, rounds)}")
    took = lambda phase, before: middle([run[phase]["wall"] - run[before]["wall"] for run in runs])
    return [
        row(ELASTIC_AGENTS, "s from a lost host to the next epoch", took("lost", "losing"), ELASTIC_SECONDS, "all agents have heard of it"),
        row(ELASTIC_AGENTS, "s from 100 more hosts to the next epoch", took("grown", "growing"), None, "one epoch for all"),
    ]


def rows_of(agents, runs):
    share = agents / AGENTS[-1]
    cpu = middle([run["started"]["cpu"] for run in runs])
    memory = middle([run["exited"]["kib"] for run in runs]) * 1024 / 1e6
    rows = [
        row(agents, "CPU s, all started", cpu, CPU_SECONDS * share, f"{cpu / agents * 1e6:.0f} us for each agent"),
        row(agents, "MB at most", memory, MEMORY_MB * share, f"{memory / agents * 1e3:.1f} kB for each agent"),
    ]
    before = {"wall": 0, "cpu": 0}
    for phase in PHASES:
        wall = middle([run[phase]["wall"] for run in runs])
        cpu = middle([run[phase]["cpu"] for run in runs])
        note = f"{wall - before['wall']:.2f} s, {cpu - before['cpu']:.2f} s of them the coordinator's CPU"
        rows.append(row(agents, f"s until {phase}", wall, None, note))
        before = {"wall": wall, "cpu": cpu}
    return rows


def row(agents, what, ours, limit, note):
    return {
        "bench": NAME,
        "case": f"{agents} agents",
        "unit": what,
        "ours": ours,
        "peer": "" if limit is None else "limit",
        "peer_value": limit,
        "ratio": None if limit is None else limit / ours,
        "note": note,
    }
