"""test_train_speed.py BUILD: the training benchmark runs, every case of it, at its smallest sizes."""
import importlib.util
import math
import sys
import unittest

import train_speed

BUILD = sys.argv.pop()


class TrainSpeed(unittest.TestCase):
    def test_every_case_has_both_speeds(self):
        small = next(bench for bench in train_speed.BENCHES if bench.NAME == "train-small")
        rows = small.measure(BUILD, 1, print)
        self.assertEqual(12, len({row["case"] for row in rows}))
        for row in rows:
            self.assertTrue(math.isfinite(row["ratio"]) and row["ratio"] > 0, row)
            # However busy the cores are.
            self.assertGreater(row["ours"], 0, row)
            self.assertGreater(row["peer_value"], 0, row)

    def test_a_run_that_fails_is_no_figure(self):
        words = ["--model", "resnet50", "--batch-size", "2", "--device", "cpu"]
        with self.assertRaisesRegex(RuntimeError, "bf17"):
            train_speed.ours(BUILD, [*words, "--dtype", "bf17"], 2, 1, 1)
        with self.assertRaisesRegex(RuntimeError, "bf17"):
            train_speed.peers([*words, "--dtype", "bf17"], 1, 1)


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch for this Python (Debian's python3-torch)")
        sys.exit(77)
    unittest.main()
