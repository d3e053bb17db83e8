"""scripts/affected-sources finds what has changed and what includes it, or gives all."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "affected-sources"
FILES = {
    ".clang-tidy": "Checks: -*\n",
    "meson.build": "project('x', 'cpp',\n  version: '0.1.0',\n  license: 'MIT')\n",
    "common/meson.build": "common = static_library('common', 'frame.cpp',\n  cpp_args: '-O1')\n",
    "worker/hvd/include/hvd/hvd.h": "#pragma once\n",
    "common/base/limits.h": "#pragma once\n",
    "common/wire/frame.h": '#pragma once\n#include "common/base/limits.h"\n',
    "common/wire/frame.cpp": '#include "common/wire/frame.h"\n',
    "common/alone.cpp": "#include <vector>\n",
    "common/below/deep.cpp": "",
    "cli/main.cpp": '#include "common/wire/frame.h"\n',
    "worker/hvd.cpp": "#include <hvd/hvd.h>\n",
}
SOURCES = {name for name in FILES if name.endswith(".cpp")}


class AffectedSources(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.git("init", "-q")
        for name, text in FILES.items():
            self.write(name, text)
        self.git("add", "-A")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all")
        self.base = self.git("rev-parse", "HEAD").strip()

    def git(self, *words):
        return subprocess.run(["git", "-C", self.folder.name, *words], check=True,
                              capture_output=True, text=True).stdout

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def affected(self, base=None, more=()):
        names = sorted(SOURCES | set(more))
        out = subprocess.run([sys.executable, SCRIPT, base or self.base], cwd=self.folder.name,
                             input="".join(name + "\0" for name in names), check=True,
                             capture_output=True, text=True).stdout
        return {name for name in out.split("\0") if name}

    def test_nothing_has_changed(self):
        self.assertEqual(self.affected(), set())

    def test_a_source_and_whoever_includes_a_header_through_others(self):
        self.write("common/base/limits.h", "#pragma once\n// new\n")
        self.assertEqual(self.affected(), {"common/wire/frame.cpp", "cli/main.cpp"})
        self.write("common/alone.cpp", "#include <map>\n")
        self.assertEqual(self.affected(), {"common/wire/frame.cpp", "cli/main.cpp", "common/alone.cpp"})

    def test_three_of_many_that_include_a_header_the_nearest_first(self):
        many = [f"cli/a{number}.cpp" for number in range(9)]
        for name in many + ["common/wire/other.cpp"]:
            self.write(name, '#include "common/wire/frame.h"\n')
        self.git("add", "-A")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "many")
        base = self.git("rev-parse", "HEAD").strip()
        self.write("common/wire/frame.h", FILES["common/wire/frame.h"] + "// new\n")
        self.write("cli/a7.cpp", "// new\n")
        self.assertEqual(self.affected(base, more=many + ["common/wire/other.cpp"]),
                         {"common/wire/frame.cpp", "common/wire/other.cpp", "cli/a0.cpp", "cli/a7.cpp"})

    def test_a_public_header(self):
        self.write("worker/hvd/include/hvd/hvd.h", "#pragma once\n// new\n")
        self.assertEqual(self.affected(), {"worker/hvd.cpp"})

    def test_a_new_file_that_git_does_not_know_yet(self):
        self.write("cli/new.cpp", "")
        self.assertEqual(self.affected(more=["cli/new.cpp"]), {"cli/new.cpp"})

    def test_what_is_committed_since(self):
        self.write("common/alone.cpp", "#include <map>\n")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qam", "more")
        self.assertEqual(self.affected(), {"common/alone.cpp"})

    def test_flags_of_a_folder(self):
        self.write("common/meson.build", FILES["common/meson.build"].replace("-O1", "-O2"))
        self.assertEqual(self.affected(), {"common/wire/frame.cpp", "common/alone.cpp",
                                           "common/below/deep.cpp"})

    def test_lists_of_sources_and_the_version_are_no_flags(self):
        self.write("common/meson.build", FILES["common/meson.build"].replace(
            "'frame.cpp',\n", "'alone.cpp', 'frame.cpp',\n  'more.cpp',\n"))
        self.write("meson.build", FILES["meson.build"].replace("0.1.0", "0.2.0"))
        self.assertEqual(self.affected(), set())
        self.write("meson.build", FILES["meson.build"].replace("MIT", "GPL"))
        self.assertEqual(self.affected(), SOURCES)

    def test_comments_sanitizers_and_the_way_of_a_test_are_no_flags(self):
        self.write("meson.build", FILES["meson.build"] + "# new\nif sanitize.contains('undefined')\n"
                   "  # one\n  add_project_arguments('-ftrap', language: 'cpp')\nendif\n")
        self.assertEqual(self.affected(), set())
        self.write("common/meson.build", FILES["common/meson.build"] + "slow = environment({'A': 'b'})\n"
                   "test('x', y, is_parallel: false, timeout: 60, env: slow)\n")
        # Another test has other flags perhaps.
        self.assertEqual(len(self.affected()), 3)
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qam", "more")
        base = self.git("rev-parse", "HEAD").strip()
        self.write("common/meson.build", FILES["common/meson.build"] +
                   "slow = environment({'A': 'c'})\ntest('x', y, priority: 9, timeout: 90)\n")
        self.assertEqual(self.affected(base=base), set())

    def test_all_where_checks_or_flags_are_others_or_the_commit_is_unknown(self):
        self.assertEqual(self.affected(base="0" * 40), SOURCES)
        for name, more in ((".clang-tidy", "# new\n"),
                           ("meson.build", "add_project_arguments('-Wall', language: 'cpp')\n")):
            before = FILES[name]
            self.write(name, before + more)
            self.assertEqual(self.affected(), SOURCES)
            self.write(name, before)


if __name__ == "__main__":
    unittest.main()
