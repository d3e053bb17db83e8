"""The programs that a benchmark runs. One that fails is named: its command, how it ended, what it said last."""

import shlex
import signal
import subprocess
import sys

LAST_LINES = 20
WIDEST = 400  # characters of a line


class Failed(RuntimeError):
    """A program that gave nothing to measure. The words end with its command, where a reader looks."""

    def __init__(self, command, how, said=""):
        self.command = list(command)
        lines = [line[:WIDEST] for line in text_of(said).splitlines() if line.strip()]
        last = lines[-LAST_LINES:]
        words = [f"its last lines on stderr ({len(last)} of {len(lines)}):" if last else "it said nothing on stderr"]
        words += [f"  | {line}" for line in last]
        words += [f"{how}: {shlex.join(self.command)}"]
        super().__init__("\n".join(words))


def text_of(said):
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""


def how_it_ended(code):
    """Of a return code as Python has it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"


def run(command, limit, environment=None, both=False):
    """What the program prints on stdout, with `both` on stderr too, as text. Raises Failed."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if both else subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout if both else late.stderr
        raise Failed(command, f"not over after {limit} s", said) from None
    except OSError as error:
        raise Failed(command, f"cannot start ({error.strerror})") from None
    if done.returncode != 0:
        raise Failed(command, how_it_ended(done.returncode), done.stdout if both else done.stderr)
    return done.stdout


def value_of(read, *arguments, **options):
    """read(output) of run(...), or None where the program fails or says something else; then that is told: a peer
    may lack what the others have, which must not be taken for a benchmark that ran."""
    try:
        said = run(*arguments, **options)
        try:
            return read(said)
        except (ValueError, IndexError):
            raise Failed(arguments[0], f"no figure in what it printed ({said.strip()[-WIDEST:]!r})") from None
    except Failed as failed:
        tell(failed)
        return None


def tell(failed):
    print(f"a program gave no figure; {failed}", file=sys.stderr, flush=True)
