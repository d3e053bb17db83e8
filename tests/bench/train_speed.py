"""images/s of `train --synthetic` beside the same net in Python's PyTorch, on a GPU where PyTorch has one."""

import os
import re
import selectors
import statistics
import subprocess
import sys
import time

import program_run

MODELS = ["resnet50", "alexnet-owt", "wrn-16-10"]
DTYPES = ["fp32", "bf16"]
FORMATS = ["NCHW", "NHWC"]
LIMIT = 400  # seconds for one run
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_train.py")
STEP = re.compile(r"^epoch 1  step (\d+)/", re.MULTILINE)
# Steps before the clock starts, steps it counts, both multiples of the first; then batch, image
# size (None: the model's own) and width (None: the model's own) of each model.
SIZES = {
    "cuda": (20, 60, {"resnet50": (64, 224, None), "alexnet-owt": (256, 224, None),
                      "wrn-16-10": (128, None, None)}),
    "cpu": (5, 20, {"resnet50": (8, 64, None), "alexnet-owt": (16, 64, None),
                   "wrn-16-10": (8, None, 2)}),
    "small": (1, 2, {"resnet50": (2, 32, 8), "alexnet-owt": (2, 64, 8),
                     "wrn-16-10": (2, None, 1)}),
}


def has_gpu():
    """Whether the peer's PyTorch can use one."""
    question = "import torch; print(torch.cuda.is_available())"
    return program_run.run([sys.executable, "-c", question], LIMIT).strip() == "True"


def common_words(model, size, case, device):
    batch, side, width = size
    words = ["--model", model, "--batch-size", str(batch), "--dtype", case[0]]
    words += ["--data-format", case[1], "--device", device]
    if side:
        words += ["--image-size", str(side)]
    if width:
        words += ["--width", str(width)]
    return words


def environment(small):
    """Both with all cores, whatever the caller's environment says. The small one with one, since threads
    that have next to nothing to do wait most for each other, minutes where the cores are busy."""
    threads = 1 if small else len(os.sched_getaffinity(0))
    return {**os.environ, "OMP_NUM_THREADS": str(threads)}


def ours(build, words, batch, warmup, steps, small=False):
    """Between the lines that train prints after the warm-up and after the last step, as they come: its
    own figure has the first steps in it."""
    command = [f"{build}/train", "--synthetic", *words, "--log-interval", str(warmup)]
    command += ["--max-steps", str(warmup + steps)]
    end = time.monotonic() + LIMIT
    seen, said = {}, ""
    with subprocess.Popen(command, env=environment(small), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while time.monotonic() < end and selector.select(end - time.monotonic()):
                piece = os.read(process.stdout.fileno(), 65536)
                now = time.perf_counter()
                if not piece:
                    break
                said += piece.decode(errors="replace")
                for number in STEP.findall(said):
                    seen.setdefault(int(number), now)
            else:
                process.kill()
    last = warmup + steps
    if process.returncode != 0 or warmup not in seen or last not in seen:
        raise program_run.Failed(command, program_run.how_it_ended(process.returncode), said)
    return steps * batch / (seen[last] - seen[warmup])


def peers(words, warmup, steps, small=False):
    """images/s, and what it ran on."""
    command = [sys.executable, PEER, *words, "--warmup", str(warmup), "--steps", str(steps)]
    speed, where = program_run.run(command, LIMIT, environment(small)).strip().split(" ", 1)
    return float(speed), where


class Bench:
    def __init__(self, name, title, small):
        self.NAME = name
        self.TITLE = title
        self._small = small

    def measure(self, build, rounds, report):
        device = "cuda" if has_gpu() and not self._small else "cpu"
        warmup, steps, sizes = SIZES["small" if self._small else device]
        rows = []
        for model in MODELS:
            for case in [(dtype, layout) for dtype in DTYPES for layout in FORMATS]:
                words = common_words(model, sizes[model], case, device)
                found = {"ours": [], "peer": []}
                for turn in range(1 if self._small else max(1, rounds // 3)):
                    # Who comes first changes: a machine that warms up or slows down meets both.
                    for who in ("ours", "peer") if turn % 2 == 0 else ("peer", "ours"):
                        if who == "ours":
                            speed = ours(build, words, sizes[model][0], warmup, steps, self._small)
                        else:
                            speed, where = peers(words, warmup, steps, self._small)
                        found[who].append(speed)
                    report(f"{self.NAME}: {model} {' '.join(case)}, round {turn + 1}: "
                           f"{found['ours'][-1]:.1f} images/s, PyTorch {found['peer'][-1]:.1f}")
                rows.append(self._row(model, case, sizes[model], found, where))
        return rows

    def _row(self, model, case, size, found, where):
        batch, side, width = size
        mine, theirs = (statistics.median(found[who]) for who in ("ours", "peer"))
        note = f"batch {batch}" + (f", images of {side}x{side}" if side else "")
        note += (f", width {width}" if width else "") + f"; {where}"
        return {
            "bench": self.NAME,
            "case": f"{model} {' '.join(case)}",
            "unit": "images/s",
            "ours": mine,
            "peer": "PyTorch",
            "peer_value": theirs,
            # Of each round, whose two runs are neighbours in time.
            "ratio": statistics.median(a / b for a, b in zip(found["ours"], found["peer"])),
            "note": note,
        }


BENCHES = [
    Bench("train", "training steps on made-up numbers, one process, images/s", small=False),
    Bench("train-small", "the same at sizes that only show that it runs", small=True),
]
