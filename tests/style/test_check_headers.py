"""scripts/check-headers finds a header that lives on what another one includes."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class CheckHeaders(unittest.TestCase):
    def run_on(self, headers, *words):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            for name, text in headers.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            result = subprocess.run([SCRIPTS / "check-headers", *words], cwd=folder, capture_output=True, text=True)
            return result.returncode, result.stdout

    def test_one_that_stands_alone_passes(self):
        code, out = self.run_on({"common/a.h": "#pragma once\n#include <vector>\ninline std::vector<int> a() { return {}; }\n"})
        self.assertEqual((code, out), (0, "1 passed, 0 failed\n"))

    def test_one_that_needs_another_fails_by_name(self):
        code, out = self.run_on({"common/a.h": "#pragma once\n#include <vector>\n",
                                 "common/b.h": "#pragma once\ninline std::vector<int> b() { return {}; }\n"})
        self.assertEqual(code, 1)
        self.assertIn("FAILED: common/b.h alone", out)
        self.assertTrue(out.endswith("1 passed, 1 failed\n"), out)

    def test_named_ones_only(self):
        code, out = self.run_on({"common/a.h": "#pragma once\nint a();\n", "common/b.h": "#pragma once\nstd::vector<int> b();\n"},
                                "common/a.h")
        self.assertEqual((code, out), (0, "1 passed, 0 failed\n"))


if __name__ == "__main__":
    os.environ["CXX"] = shutil.which(os.environ.get("CXX", "g++").split()[-1]) or "g++"
    unittest.main()
