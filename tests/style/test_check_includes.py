"""The check for names without their header finds what it promises to find."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_includes  # noqa: E402


class CheckIncludes(unittest.TestCase):
    def faults(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_includes.check(root)

    def test_a_name_without_its_header_is_a_fault(self):
        self.assertEqual(
            self.faults(**{"common/port.h": "#include <string>\nstd::uint16_t port;\n"}),
            ["common/port.h: std::uint16_t needs <cstdint>"],
        )

    def test_the_header_may_come_by_one_of_ours(self):
        self.assertEqual(
            self.faults(**{
                "worker/hvd/include/hvd/types.h": "#include <cstdint>\n",
                "common/port.h": "#include <hvd/types.h>\nstd::uint16_t port;\n",
                "common/port.cpp": '#include "common/port.h"\nstd::uint32_t more;\n',
            }),
            [],
        )

    def test_comments_texts_and_includes_are_no_code(self):
        self.assertEqual(
            self.faults(**{
                "cli/words.cpp": '#include <optional>\n// std::min(1, 2)\nauto t = "errno";\n',
            }),
            [],
        )


if __name__ == "__main__":
    unittest.main()
