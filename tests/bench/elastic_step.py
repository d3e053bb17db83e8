"""elastic_step.cpp for torchrun, which restarts all ranks: steps of a small allreduce, the state in a file of memory.

usage: elastic_step.py STATE TOUCHED FOLDER
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

STEPS = 50  # until the time of one is known


def main():
    state_bytes, touched, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rank = int(os.environ["RANK"])
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    held = torch.ones(touched if rank == 1 and first else 0, dtype=torch.uint8)
    dist.init_process_group("gloo")
    path = f"{folder}/state.{rank}"
    state = torch.ones(state_bytes, dtype=torch.uint8) if first else torch.load(path)
    values = torch.ones(1000, dtype=torch.float64)
    times = []
    while True:
        begin = time.monotonic_ns()
        dist.all_reduce(values)
        values /= dist.get_world_size()
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)
        times.append(time.monotonic_ns() - begin)
        if len(times) == 1 and not first:
            print(f"slot {rank} went on at {time.monotonic_ns()} copied 0", flush=True)
        if len(times) == STEPS and first and rank == 0:
            print(f"ready: step {int(statistics.median(times))} {held.numel()}", flush=True)


main()
