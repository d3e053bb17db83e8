"""What ordinary memory of another process costs: slots in a shared mapping against process_vm_readv."""

import statistics

import program_run

NAME = "copy"
TITLE = "fetching the other process's buffer, both at once: through shared slots, by process_vm_readv"
KIB, MIB = 1 << 10, 1 << 20
SIZES = [16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]


def measure(build, rounds, report):
    rows = []
    for size in SIZES:
        staged, read = [], []
        for turn in range(rounds):
            report(f"{NAME} bytes={size}: round {turn + 1} of {rounds}")
            count = max(9, min(2000, 256 * MIB // size))
            one, two = program_run.run([f"{build}/bench/peer_copy", str(size), str(count)], 60).split()
            staged.append(float(one))
            if two != "none":
                read.append(float(two))
        ours, peer = statistics.median(staged), statistics.median(read) if read else None
        rows.append(
            {
                "bench": NAME,
                "case": f"bytes={size}",
                "unit": "us",
                "ours": ours * 1e6,
                "peer": "process_vm_readv",
                "peer_value": peer * 1e6 if peer else None,
                "ratio": peer / ours if peer else None,
                "note": "" if peer else "not allowed here",
            }
        )
    return rows
