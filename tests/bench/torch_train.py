"""The peer of train_speed.py: one lab model trained on made-up numbers by Python's PyTorch.

Prints images per second over --steps steps after --warmup of them, and what it ran on. As PyTorch's
performance guide has it: the batch on the device once, channels_last for NHWC, autocast for bf16,
gradients reset to None, cuDNN's search for the fastest algorithm, and no look at a number of the
device before the end. Not compiled: train runs the same operators one by one, too.
"""
import argparse
import contextlib
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration" / "programs"))
import lab_nets

# net by width, channels of an image, its side unless given, and the recipe's weight decay
MODELS = {
    "resnet50": (lambda width: lab_nets.ResNet50(width or 64, 1000), 3, 224, 5e-5),
    "alexnet-owt": (lambda width: lab_nets.AlexNet(width or 64, 1000, 0.5), 3, 224, 5e-4),
    "wrn-16-10": (lambda width: lab_nets.WideResNet(16, width or 10, 0.01), 1, 28, 0),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--width", type=int)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--data-format", choices=["NCHW", "NHWC"], default="NCHW")
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    make, channels, side, decay = MODELS[options.model]
    side = options.image_size or side
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    layout = torch.channels_last if options.data_format == "NHWC" else torch.contiguous_format
    net = make(options.width).to(device).to(memory_format=layout).train()
    images = torch.randn(options.batch_size, channels, side, side)
    images = images.to(device).to(memory_format=layout)
    classes = 10 if options.model == "wrn-16-10" else 1000
    labels = torch.randint(classes, (options.batch_size,)).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=decay)

    def step():
        sgd.zero_grad(set_to_none=True)
        # A context of its own for each step, since it keeps the converted weights.
        with (
            torch.autocast(options.device, dtype=torch.bfloat16)
            if options.dtype == "bf16"
            else contextlib.nullcontext()
        ):
            output = net(images)
        loss = F.nll_loss(output.float(), labels)
        if hasattr(net, "penalty"):
            loss = loss + net.penalty()
        loss.backward()
        sgd.step()
        return loss

    for _ in range(options.warmup):
        loss = step()
    loss.item()  # all that was queued is done
    begin = time.perf_counter()
    for _ in range(options.steps):
        loss = step()
    loss.item()
    seconds = time.perf_counter() - begin
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{options.steps * options.batch_size / seconds:.4f} PyTorch {torch.__version__}, {where}")


main()
