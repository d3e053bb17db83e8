#!/usr/bin/python3
"""Fails for a size in worker/hvd/comm by which something is called small or large, but in size_class.h.

Such a threshold stands in comm/size_class.h, once, with its reason: two places that decide the same
drift apart. A size of another kind, how much memory is used say, has a name in BOUNDS that tells so.

usage: check_thresholds.py [ROOT]     prints FILE:LINE: what is wrong; exit code 1 when something is
"""

import pathlib
import re
import sys

FOLDER = "worker/hvd/comm"
HOME = "size_class.h"
# The rooms whose sizes are of another kind: the arithmetic's own and a connection's.
OTHER_ROOMS = {"reduce", "link"}
# Sizes that bound memory or a system call, and decide nothing.
BOUNDS = {
    "kAdasumBatchBytes",  # memory of a batch of vectors
    "kBatchDots",         # memory of a round's dot products
    "kPartsBytes",        # memory of the other hosts' elements
    "kPiece",             # of one fallocate()
    "kSmallest",          # and of the smallest
    "kMaxBytes",          # of a region that a place can name
}
NAME = re.compile(r"constexpr\s+(?:std::size_t|auto)\s+(k\w+)\s*=")
SIZE_NAME = re.compile(r"k(\w*(Small|Large|Inline|Chunk|Window|Pair|Shared|Threshold|Gathered)\w*"
                       r"|(Most|Least)Bytes)$")
SIZE = re.compile(r"<<\s*[12]0U?\b|\b1024\b")
COMPARED = re.compile(r"\b\w*(?:bytes|total)\w*\s*(?:<=?|>=?)\s*\d{2,}")


def faults_of(text):
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        named = NAME.search(code)
        name = named[1] if named else None
        if name in BOUNDS:
            continue
        if SIZE.search(code) or COMPARED.search(code) or (
                name and SIZE_NAME.match(name) and re.search(r"=\s*\d", code)):
            yield number, f"{name or 'a size'} belongs into {FOLDER}/{HOME}, or has another purpose"


def check(root):
    bad = []
    for path in sorted((root / FOLDER).rglob("*")):
        inside = path.relative_to(root / FOLDER)
        if path.suffix not in {".h", ".cpp"} or path.name == HOME or inside.parts[0] in OTHER_ROOMS:
            continue
        bad += [f"{FOLDER}/{inside}:{n}: {fault}" for n, fault in faults_of(path.read_text())]
    return bad


if __name__ == "__main__":
    faults = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(faults) if faults else "small or large is decided once")
    sys.exit(1 if faults else 0)
