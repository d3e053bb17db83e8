"""One timed run of a program, with a limit that holds whatever the program does."""

import os
import select
import signal
import time

import program_run


class Hung(program_run.Failed):
    """The program was still there when its time was up."""


def wall_seconds(command, environment, limit):
    """Runs the command without input or output. Raises Hung, and program_run.Failed when it failed."""
    null = os.open(os.devnull, os.O_RDWR)
    # For the words of a failure. One for both: a launcher may treat two files in another way.
    said = os.memfd_create("output")
    actions = [(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate((null, said, said))]
    try:
        begin = time.perf_counter()
        pid = os.posix_spawnp(
            command[0], command, environment, file_actions=actions, setpgroup=0
        )
        ended = wait_until(pid, limit)
        elapsed = time.perf_counter() - begin
        if not ended:
            stop(pid)
            raise Hung(command, f"not over after {limit} s", text_in(said))
        _, status = os.waitpid(pid, 0)
        if status != 0:
            how = program_run.how_it_ended(os.waitstatus_to_exitcode(status))
            raise program_run.Failed(command, how, text_in(said))
    finally:
        os.close(null)
        os.close(said)
    return elapsed


def text_in(fd):
    """What a program has written to the file."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


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
