# A plain PyTorch DDP program, as people start it with torchrun: nothing of hvdrun in it.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method="env://")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
target = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
losses = []
for step in range(60):
    x = torch.randn(32, 4)
    loss = torch.nn.functional.mse_loss(model(x), x @ target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weight = model.module.weight.sum().item()
print(f"loss {losses[0]:.6f} to {losses[-1]:.6f} weight {weight:.9f}", flush=True)
dist.destroy_process_group()
