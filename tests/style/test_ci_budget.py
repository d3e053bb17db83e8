"""The budget of CONTRIBUTING.md has a row for each stage of .ci/run, and is not overdrawn."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_MINUTES = 55
ROW = re.compile(r"^\| `([a-z0-9-]+)` *\| *([0-9.]+) *\|", re.MULTILINE)


class CiBudget(unittest.TestCase):
    def setUp(self):
        self.budget = dict(ROW.findall((ROOT / "CONTRIBUTING.md").read_text()))
        self.stages = re.findall(r"^stage ([a-z0-9-]+) ", (ROOT / ".ci/run").read_text(), re.MULTILINE)

    def test_each_stage_has_a_row(self):
        self.assertEqual(list(self.budget), self.stages)

    def test_the_rows_add_up(self):
        self.assertLessEqual(sum(map(float, self.budget.values())), MOST_MINUTES)


if __name__ == "__main__":
    unittest.main()
