"""The check for thresholds outside comm/size_class.h finds what it promises to find."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_thresholds  # noqa: E402


class CheckThresholds(unittest.TestCase):
    def faults(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / check_thresholds.FOLDER / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return [fault.split(" belongs")[0] for fault in check_thresholds.check(root)]

    def test_a_second_threshold_is_a_fault(self):
        self.assertEqual(
            self.faults(**{
                "shm/staging.h": "\ninline constexpr std::size_t kSmallBytes = 64U << 10;\n",
                "hosts/hosts_move.cpp": "constexpr std::size_t kInlineBytes = 32;\n",
                "adasum.cpp": "if (bytes <= 65536) return;\n",
                "descriptor.cpp": "const bool large = total > 4 * 1024;\n",
            }),
            [
                "worker/hvd/comm/adasum.cpp:1: a size",
                "worker/hvd/comm/descriptor.cpp:1: a size",
                "worker/hvd/comm/hosts/hosts_move.cpp:1: kInlineBytes",
                "worker/hvd/comm/shm/staging.h:2: kSmallBytes",
            ],
        )

    def test_its_home_other_rooms_and_bounds_of_memory_are_none(self):
        self.assertEqual(
            self.faults(**{
                "size_class.h": "inline constexpr std::size_t kSmallBytes = 64U << 10;\n",
                "link/link.h": "static constexpr std::size_t kMostRead = std::size_t{1} << 20;\n",
                "hosts/hosts_exchange.h": "static constexpr std::size_t kPartsBytes = 8U << 20;\n",
                "shm/staging.h": "constexpr std::size_t kSlots = 2;  // of 64 << 10 bytes\n",
            }),
            [],
        )


if __name__ == "__main__":
    unittest.main()
