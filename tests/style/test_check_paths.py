"""The check of paths in pages finds what it promises to find: each test plants one fault."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_paths  # noqa: E402

# A small project that breaks no rule.
CLEAN = {
    "README.md": """\
# A tree

The rules are in [the page](docs/page.md#names-and-places). `train.py`, `/dev/shm`, `--opt/ion` and
`rank.1/stdout` are users'.

    scripts/build --fast      # not scripts/gone
    gone/elsewhere.h
""",
    "docs/page.md": """\
# Page

`common/base/lease.h`, `common/base/lease`, `base/lease.h`, `lease.*`, `common/*/lease.*` and `common/base/` are there, as
[the source](../common/base/lease.h) and [the head](#names-and-places) are.

```
wire/gone.h
```

## Names, and places
""",
    "common/base/lease.h": "// As docs/page.md says.\n",
    "scripts/build": '#!/bin/sh\n"$dir/common/base/prober" $dir/common $dir/common/$name build/common/base\n',
    "common/base/meson.build": "executable('prober', 'prober.cpp')\n",
}


class CheckPaths(unittest.TestCase):
    def faults(self, name=None, more=""):
        """The faults of the clean project with text appended to one file."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for file, text in CLEAN.items():
                path = root / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + (more if file == name else ""))
            return check_paths.check(root)

    def assert_one(self, faults, *parts):
        self.assertEqual(len(faults), 1, faults)
        for part in parts:
            self.assertIn(part, faults[0])

    def test_a_clean_project(self):
        self.assertEqual(self.faults(), [])

    def test_a_path_in_backquotes(self):
        self.assert_one(self.faults("docs/page.md", "`common/wire/lease.h`\n"), "docs/page.md:", "common/wire/lease.h")

    def test_the_line_is_named(self):
        self.assert_one(self.faults("scripts/build", "\n# docs/gone.md\n"), "scripts/build:4: ")

    def test_a_folder(self):
        self.assert_one(self.faults("README.md", "`tests/gone`\n"), "README.md:", "tests/gone")

    def test_a_bare_name(self):
        self.assert_one(self.faults("README.md", "`gone.cpp`\n"), "gone.cpp")

    def test_a_glob(self):
        self.assert_one(self.faults("docs/page.md", "`leases.*`\n"), "leases.*")

    def test_the_end_of_a_path_is_whole_names(self):
        self.assert_one(self.faults("docs/page.md", "`ase/lease.h` `common/ease.h`\n"), "common/ease.h")

    def test_a_word_of_a_command(self):
        self.assert_one(self.faults("README.md", "\n    scripts/gone all\n"), "scripts/gone")

    def test_a_word_of_a_fenced_command(self):
        self.assert_one(self.faults("README.md", "\n```\nscripts/build common/gone.h\n```\n"), "common/gone.h")

    def test_a_link(self):
        self.assert_one(self.faults("docs/page.md", "[a](../common/base/gone.h)\n"), "../common/base/gone.h")

    def test_a_link_over_two_lines(self):
        self.assert_one(self.faults("docs/page.md", "[a\nb](gone.md)\n"), "gone.md")

    def test_a_heading_of_another_page(self):
        self.assert_one(self.faults("README.md", "[a](docs/page.md#gone)\n"), "docs/page.md has no heading '#gone'")

    def test_a_heading_of_the_page_itself(self):
        self.assert_one(self.faults("README.md", "[a](#gone)\n"), "README.md has no heading '#gone'")

    def test_a_link_elsewhere(self):
        self.assertEqual(self.faults("README.md", "[a](https://example.org/gone.h)\n"), [])

    def test_a_page_that_a_source_names(self):
        self.assert_one(self.faults("common/base/lease.h", "// docs/gone.md\n"), "lease.h:2: ", "docs/gone.md")

    def test_a_folder_of_a_build(self):
        self.assert_one(self.faults("README.md", "`PATH=build/common:build/common/gone`\n"), "common/gone")

    def test_a_program_of_a_build(self):
        self.assert_one(self.faults("scripts/build", '"$dir/common/base/probe"\n'), "scripts/build:3: ", "base/probe")


if __name__ == "__main__":
    unittest.main()
