"""The processes of a launcher and of its job, as /proc shows them."""

import os
import time


def children_of_all():
    """pid -> list of the pids of its children."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    return children


def tree(root):
    """root and everything below it."""
    children = children_of_all()
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def program_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def pss_kib(pid):
    """The process's proportional share of memory."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def wait_for(root, program, count, limit):
    """The tree of root once `count` processes of it run `program`; None after the limit."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found = tree(root)
        if sum(program_of(pid) == program for pid in found) == count:
            return found
        time.sleep(0.02)
    return None


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
