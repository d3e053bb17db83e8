"""1,000 tensors of 1 KiB with PyTorch's gloo: asynchronous, all ranks in the same order."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

TENSORS, ELEMENTS, WARM_UP = 1000, 256, 3


def main():
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tensors = [torch.empty(ELEMENTS) for _ in range(TENSORS)]
    seconds = []
    for step in range(-WARM_UP, int(sys.argv[1])):
        for index, tensor in enumerate(tensors):
            tensor.fill_(index)
        dist.barrier()
        begin = time.perf_counter()
        work = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for one in work:
            one.wait()
        if step >= 0:
            seconds.append(time.perf_counter() - begin)
        assert tensors[-1][0] == (TENSORS - 1) * dist.get_world_size()
    slowest = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(f"{statistics.median(slowest.tolist()):.9f}")
    dist.destroy_process_group()  # as in ddp_step.py


if __name__ == "__main__":
    main()
