"""scripts/count_tests.py counts cases, and no way of failing goes unseen."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import count_tests  # noqa: E402  # from scripts/

PASSED = "===\nAll tests passed (86 assertions in 4 test cases)\n"
FAILED = "===\ntest cases:  5 |  3 passed | 2 failed\nassertions: 90 | 88 passed | 2 failed\n"


def line(result, stdout="", name="common"):
    return {"name": name, "result": result, "stdout": stdout}


class CountTests(unittest.TestCase):
    def assert_counts(self, result, stdout, expected):
        self.assertEqual(count_tests.count(line(result, stdout))[:3], expected)

    def test_a_catch2_program_counts_with_its_cases(self):
        self.assert_counts("OK", PASSED, (4, 0, 0))
        self.assert_counts("FAIL", FAILED, (3, 2, 0))
        self.assert_counts("OK", "All tests passed (1 assertion in 1 test case)\n", (1, 0, 0))

    def test_a_unittest_program_counts_with_its_cases(self):
        self.assert_counts("OK", "Ran 7 tests in 0.1s\n\nOK\n", (7, 0, 0))
        self.assert_counts("OK", "Ran 7 tests in 0.1s\n\nOK (skipped=2)\n", (5, 0, 2))
        text = "Ran 7 tests in 0.1s\n\nFAILED (failures=2, errors=1)\n"
        self.assert_counts("FAIL", text, (4, 3, 0))

    def test_any_other_program_counts_as_one(self):
        self.assert_counts("OK", "hello\n", (1, 0, 0))
        self.assert_counts("FAIL", "hello\n", (0, 1, 0))

    def test_a_crash_or_a_timeout_is_a_failure(self):
        for result in ["FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"]:
            with self.subTest(result=result):
                self.assert_counts(result, "", (0, 1, 0))
                self.assert_counts(result, PASSED, (4, 1, 0))

    def test_a_skipped_program_gives_its_reason(self):
        counted = count_tests.count(line("SKIP", "looking\nskipped: no GPU\n"))
        self.assertEqual(counted, (0, 0, 1, "skipped: no GPU"))

    def test_a_failed_case_is_named_with_its_first_lines(self):
        log = "\n".join(
            ["-" * 79, "a name of a case", "-" * 79, "test_x.cpp:12", "." * 79, ""]
            + ["test_x.cpp:14: FAILED:", "  CHECK( a == b )", "with expansion:", "  1 == 2"]
        )
        found = count_tests.excerpts(log)
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0][0], "a name of a case")
        self.assertIn("  CHECK( a == b )", found[0])

    def test_a_report_of_a_sanitizer_or_the_end_of_a_log_is_shown(self):
        report = ["==1==ERROR: AddressSanitizer: heap-use-after-free"]
        self.assertEqual(count_tests.excerpts("\n".join(["before"] * 50 + report)), [report])
        self.assertEqual(count_tests.excerpts("one\ntwo"), [["one", "two"]])

    def closing(self, *lines):
        """The exit code and the last line for a whole log."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "testlog.json"
            if lines:
                log.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = count_tests.main(log)
            return code, out.getvalue().splitlines()[-1]

    def test_the_last_line_sums_up(self):
        self.assertEqual(self.closing(line("OK", PASSED)), (0, "4 passed, 0 failed"))
        self.assertEqual(
            self.closing(line("OK", PASSED), line("FAIL", FAILED), line("SKIP", "no GPU")),
            (1, "7 passed, 2 failed, 1 skipped"),
        )

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(self.closing(), (1, "0 passed, 1 failed"))


if __name__ == "__main__":
    unittest.main()
