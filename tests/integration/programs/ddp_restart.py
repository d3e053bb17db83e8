# A PyTorch DDP program with a checkpoint every ten steps, as people start it with torchrun
# --max-restarts: ddp_restart.py FOLDER [STEP]. Rank 1 of the first start kills itself in that step.
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

path = os.path.join(sys.argv[1], "checkpoint.pt")
fatal = int(sys.argv[2]) if len(sys.argv) > 2 else -1
dist.init_process_group("gloo", init_method="env://")
rank = dist.get_rank()
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
begin = 0
if os.path.exists(path):
    saved = torch.load(path)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    begin = saved["step"]
print(f"begins with step {begin}", flush=True)
target = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
for step in range(begin, 40):
    if rank == 1 and step == fatal and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(1000 * step + rank))
    loss = torch.nn.functional.mse_loss(model(x), x @ target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 10 == 0:
        if rank == 0:
            saved = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(saved, path + ".new")
            os.replace(path + ".new", path)
        dist.barrier()
print(f"loss {loss.item():.9f} weights {model.module.weight.tolist()}", flush=True)
dist.destroy_process_group()
