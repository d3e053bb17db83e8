"""The same with torch.distributed on gloo; rank and size come from the environment."""

import os
import sys
import time

import torch
import torch.distributed as dist


def element(rank, round_, count):
    return ((rank * 7 + round_ + torch.arange(count)) % 16).float()


WARM_UP, LIMIT, FEWEST = 0.1, 1.5, 7  # as in collective_timing.h


def passed(begin, seconds):
    early = torch.tensor([1.0 if time.perf_counter() - begin < seconds else 0.0])
    dist.all_reduce(early, dist.ReduceOp.MAX)
    return early.item() == 0


def main():
    operation, size_bytes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    count = size_bytes // 4
    part = max(count // ranks, 1)
    whole = count if operation in ("allreduce", "broadcast") else part * ranks
    values = torch.empty(whole)
    out = torch.empty(whole)
    parts = list(out.view(ranks, -1).unbind(0)) if whole == part * ranks else []
    seconds = []
    warm = False
    start = time.perf_counter()
    round_ = -1
    while len(seconds) < rounds:
        round_ += 1
        if not warm and round_ >= 2 and passed(start, WARM_UP):
            warm = True
            start = time.perf_counter()
        if len(seconds) >= FEWEST and round_ % 16 == 0 and passed(start, LIMIT):
            break
        values.copy_(element(rank, round_, whole))
        dist.barrier()
        begin = time.perf_counter()
        if operation == "allreduce":
            dist.all_reduce(values)
        elif operation == "broadcast":
            dist.broadcast(values, 0)
        elif operation == "allgather":
            dist.all_gather(parts, values[:part])
        else:
            raise SystemExit(f"gloo has no {operation} here")
        elapsed = time.perf_counter() - begin
        dist.barrier()
        if warm:
            seconds.append(elapsed)
        if operation == "allreduce":
            want = sum(element(r, round_, whole) for r in range(ranks))
            right = bool((values == want).all())
        elif operation == "broadcast":
            right = bool((values == element(0, round_, whole)).all())
        else:
            right = all(bool((parts[r] == element(r, round_, part)).all()) for r in range(ranks))
        if not right:
            raise SystemExit("wrong result")
    slowest = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{slowest.sort().values[len(seconds) // 2].item():.9f}")
    dist.destroy_process_group()  # as in ddp_step.py


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
