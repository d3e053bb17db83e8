"""A benchmark names the program that failed: its command, how it ended, and what it said last."""

import contextlib
import importlib
import io
import pathlib
import re
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))

import program_run  # noqa: E402
import timing  # noqa: E402


def shell(words):
    return ["sh", "-c", words, "a name"]


class ProgramRun(unittest.TestCase):
    def failure(self, *arguments, **options):
        with self.assertRaises(program_run.Failed) as raised:
            program_run.run(*arguments, **options)
        return str(raised.exception)

    def test_what_succeeds_gives_its_output_alone(self):
        self.assertEqual("a\n", program_run.run(shell("echo a; echo b >&2"), 60))
        self.assertEqual("a\nb\n", program_run.run(shell("echo a; echo b >&2"), 60, both=True))
        self.assertEqual("c\n", program_run.run(shell('echo "$HERE"'), 60, {"HERE": "c", "PATH": "/bin:/usr/bin"}))

    def test_the_last_line_has_the_command_and_how_it_ended(self):
        said = self.failure(shell("echo first >&2; echo; echo last >&2; exit 3"), 60)
        self.assertEqual(
            [
                "its last lines on stderr (2 of 2):",
                "  | first",
                "  | last",
                "exit code 3: sh -c 'echo first >&2; echo; echo last >&2; exit 3' 'a name'",
            ],
            said.splitlines(),
        )

    def test_a_signal_is_named(self):
        said = self.failure(shell("kill -ABRT $$"), 60)
        self.assertIn("it said nothing on stderr\nkilled by signal 6 (SIGABRT): sh -c ", said)

    def test_only_the_last_lines_are_told(self):
        said = self.failure(shell("seq 1000 >&2; exit 1"), 60).splitlines()
        self.assertEqual(program_run.LAST_LINES + 2, len(said))
        self.assertEqual("its last lines on stderr (20 of 1000):", said[0])
        self.assertEqual("  | 1000", said[-2])

    def test_one_that_hangs_or_is_not_there(self):
        said = self.failure(shell("echo waits >&2; exec sleep 100"), 0.5)
        self.assertIn("  | waits\nnot over after 0.5 s: sh -c ", said)
        self.assertIn("cannot start (No such file or directory): /no/such", self.failure(["/no/such"], 1))

    def test_a_peer_without_a_figure_is_told(self):
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            self.assertEqual(2.5, program_run.value_of(float, shell("echo 2.5"), 60))
            self.assertEqual("", told.getvalue())
            self.assertIsNone(program_run.value_of(float, shell("echo no number"), 60))
            self.assertIsNone(program_run.value_of(float, shell("echo broken >&2; exit 5"), 60))
        self.assertIn("no figure in what it printed ('no number'): sh -c 'echo no number'", told.getvalue())
        self.assertIn("  | broken\nexit code 5: sh -c ", told.getvalue())

    def test_a_timed_run_names_it_too(self):
        environment = {"PATH": "/bin:/usr/bin"}
        self.assertGreater(timing.wall_seconds(shell("exit 0"), environment, 60), 0)
        with self.assertRaisesRegex(program_run.Failed, r"  \| lost\nexit code 4: sh -c "):
            timing.wall_seconds(shell("echo lost >&2; exit 4"), environment, 60)
        with self.assertRaisesRegex(timing.Hung, "not over after 0.2 s: sh -c "):
            timing.wall_seconds(shell("exec sleep 100"), environment, 0.2)

    def test_every_benchmark_loads(self):
        bench = importlib.import_module("bench")
        self.assertIn("gradients", bench.BENCHES)

    def test_no_benchmark_runs_a_program_past_this(self):
        # Those that talk to a program while it runs start it themselves, and name it themselves.
        alone = {"bench.py": 1, "elastic.py": 1, "gradients.py": 2, "http_store.py": 1, "kill.py": 1, "memory.py": 1, "program_run.py": 1, "train_speed.py": 1}
        found = {}
        for file in BENCH.glob("*.py"):
            count = len(re.findall(r"subprocess\.(?:run|Popen|check_\w+|call)\(|os\.system\(", file.read_text(encoding="utf-8")))
            if count:
                found[file.name] = count
        self.assertEqual(alone, found)


if __name__ == "__main__":
    unittest.main()
