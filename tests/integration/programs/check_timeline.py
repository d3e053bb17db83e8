"""Reads a timeline as viewers do, and prints what is in it, a line each:

    rank 0 (localhost)
    0 grad.0 ALLREDUCE 10              pid, thread, event, how often

usage: check_timeline.py FILE...       exit code 1 and one line when something is wrong
"""

import collections
import json
import sys

ORDER = ["NEGOTIATE_ALLREDUCE", "QUEUE", "MEMCPY_IN_FUSION_BUFFER", "ALLREDUCE",
         "MEMCPY_OUT_FUSION_BUFFER"]


def check(path):
    events = json.load(open(path, encoding="utf-8"))
    assert isinstance(events, list)
    processes, threads, lanes = {}, {}, collections.defaultdict(list)
    counts = collections.Counter()
    for event in events:
        assert event["ph"] in "MXi", event
        pid, tid = event["pid"], event.get("tid")
        if event["ph"] == "M":
            if event["name"] == "process_name":
                processes[pid] = event["args"]["name"]
            if event["name"] == "thread_name":
                assert tid not in threads, event
                threads[tid] = (pid, event["args"]["name"])
            continue
        assert pid in processes and threads[tid][0] == pid, event
        counts[pid, threads[tid][1], event["name"]] += 1
        # Marks of any other scope are drawn elsewhere, not on the thread that they name.
        assert event["ph"] != "i" or event["s"] == "t", event
        if event["ph"] == "X":
            assert event["dur"] >= 0
            begin = round(event["ts"] * 1000)
            lanes[tid].append((begin, begin + round(event["dur"] * 1000), event))
    for tid, phases in lanes.items():
        open_until = []
        # Of those that begin together the longest is the outer one.
        for begin, end, event in sorted(phases, key=lambda phase: (phase[0], -phase[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1], ("overlap", threads[tid], event)
            open_until.append(end)
        names = [event["name"] for _, _, event in sorted(phases, key=lambda phase: phase[:2])]
        if threads[tid][1] == "grad.0":
            assert names == ORDER * (len(names) // len(ORDER)), names
    for pid in sorted(processes):
        print(processes[pid])
    for key in sorted(counts):
        print(*key, counts[key])


for name in sys.argv[1:]:
    try:
        check(name)
    except (AssertionError, ValueError, KeyError, OSError) as error:
        print(f"{name}: {type(error).__name__}: {error}")
        sys.exit(1)
