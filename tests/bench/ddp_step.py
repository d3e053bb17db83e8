"""The same as step.cpp with PyTorch's DistributedDataParallel on gloo; started by hvdrun."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

INPUT, WIDTH, CLASSES, HIDDEN = 1024, 2048, 1000, 5
BATCH, BATCHES, WARM_UP = 8, 8, 3
MODEL = sys.argv[1]  # mlp, gradients: as in step.cpp


class Gradients(nn.Module):
    """Parameters with the shapes of ResNet-50's, and hardly any work to do for their gradients."""

    def __init__(self):
        super().__init__()
        shapes = []

        def convolution(out, incoming, kernel):
            shapes.extend([(out, incoming, kernel, kernel), (out,), (out,)])

        convolution(64, 3, 7)
        incoming = width = 64
        for blocks in (3, 4, 6, 3):
            for block in range(blocks):
                convolution(width, incoming, 1)
                convolution(width, width, 3)
                convolution(4 * width, width, 1)
                if block == 0:
                    convolution(4 * width, incoming, 1)
                incoming = 4 * width
            width *= 2
        shapes += [(CLASSES, incoming), (CLASSES,)]
        self.list = nn.ParameterList(nn.Parameter(torch.randn(shape) * 0.01) for shape in shapes)

    def forward(self, data):
        value = data.sum() * 1e-3
        for parameter in self.list:
            value = (value + parameter.mean()).tanh()
        return value


def loss_of(model, batch):
    if MODEL == "gradients":
        return model(batch[0])
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def make_model():
    torch.manual_seed(1)
    if MODEL == "gradients":
        return Gradients()
    layers = [nn.Linear(INPUT, WIDTH)]
    for _ in range(HIDDEN):
        layers += [nn.ReLU(), nn.Linear(WIDTH, WIDTH)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(WIDTH, CLASSES))


def make_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def make_batches(rank):
    torch.manual_seed(100 + rank)
    return [(torch.randn(BATCH, INPUT), torch.randint(CLASSES, (BATCH,))) for _ in range(BATCHES)]


def step(model, optimizer, batch, to_none):
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=to_none)
    loss_of(model, batch).backward()
    optimizer.step()
    return time.perf_counter() - begin


def flat(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def reduced(values, op):
    values = values.clone()
    dist.all_reduce(values, op)
    return values


def check_averaged(distributed, alone):
    """As averaged() of step.cpp."""
    got, mine = flat(distributed), flat(alone)
    same = torch.equal(reduced(got, dist.ReduceOp.MAX), reduced(got, dist.ReduceOp.MIN))
    mean = reduced(mine, dist.ReduceOp.SUM) / dist.get_world_size()
    away, differ = (got - mean).abs().max().item(), (got - mine).abs().max().item()
    if not same or away >= 1e-6 or (dist.get_world_size() > 1 and differ <= 1e-7):
        raise SystemExit(f"gradients are not averaged: same {same}, off by {away}, alone {differ}")


def median_of_slowest(seconds):
    return statistics.median(
        reduced(torch.tensor(seconds, dtype=torch.float64), dist.ReduceOp.MAX).tolist()
    )


def main():
    blocks, steps = int(sys.argv[2]), int(sys.argv[3])
    settings = sys.argv[4:]  # static: static_graph; none: gradients are dropped, not set to zero
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    batches = make_batches(dist.get_rank())
    model, alone = make_model(), make_model()
    distributed = nn.parallel.DistributedDataParallel(
        model, gradient_as_bucket_view=True, static_graph="static" in settings
    )
    to_none = "none" in settings
    with_it, plain = make_sgd(model), make_sgd(alone)
    for i in range(WARM_UP):
        step(distributed, with_it, batches[i], to_none)
        step(alone, plain, batches[i], to_none)
        if i == 0:
            check_averaged(model, alone)
    with_communication, without = [], []
    for _ in range(blocks):
        dist.barrier()
        for i in range(steps):
            with_communication.append(step(distributed, with_it, batches[i % BATCHES], to_none))
        dist.barrier()
        for i in range(steps):
            without.append(step(alone, plain, batches[i % BATCHES], to_none))
    on, off = median_of_slowest(with_communication), median_of_slowest(without)
    if dist.get_rank() == 0:
        print(f"{on:.9f} {off:.9f}")
    # Gloo's threads must not outlive the interpreter: one that then wants its lock is unwound by
    # force, which ends in "terminate called without an active exception".
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
