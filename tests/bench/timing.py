"""One timed run of a program, with a limit that holds whatever the program does."""

import os
import select
import signal
import time


class Hung(Exception):
    """The program was still there when its time was up."""


def wall_seconds(command, environment, limit):
    """Runs the command without input or output. Raises Hung, and RuntimeError when it failed."""
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    try:
        begin = time.perf_counter()
        pid = os.posix_spawnp(
            command[0], command, environment, file_actions=actions, setpgroup=0
        )
        ended = wait_until(pid, limit)
        elapsed = time.perf_counter() - begin
    finally:
        os.close(null)
    if not ended:
        stop(pid)
        raise Hung
    _, status = os.waitpid(pid, 0)
    if status != 0:
        code = os.waitstatus_to_exitcode(status)
        raise RuntimeError(f"{' '.join(command)}: exit code {code}")
    return elapsed


def wait_until(pid, limit):
    """True when the process ended within the limit; it is not reaped."""
    pidfd = os.pidfd_open(pid)
    try:
        return bool(select.select([pidfd], [], [], limit)[0])
    finally:
        os.close(pidfd)


def stop(pid):
    """TERM first, so that a launcher can clean up after itself; then KILL for its group."""
    os.killpg(pid, signal.SIGTERM)
    wait_until(pid, 2)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
