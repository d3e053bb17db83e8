"""The check for calls that std may take finds what it promises to find."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_names  # noqa: E402


class CheckNames(unittest.TestCase):
    def faults(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return [fault.split(" may")[0] for fault in check_names.check(root)]

    def test_a_call_without_a_namespace_is_a_fault_where_our_function_is_visible(self):
        text = "std::string quoted(const std::string& word);\n"
        self.assertEqual(
            self.faults(**{
                "common/base/words.h": text,
                "common/base/more.h": '#include "common/base/words.h"\n',
                "cli/main.cpp": '#include "common/base/more.h"\nint main() {\n  say(quoted(word));\n}\n',
                "cli/other.cpp": "auto text = quoted(word);  // that of another class, say\n",
            }),
            ["cli/main.cpp:3: quoted()"],
        )

    def test_a_function_of_the_file_itself_counts_and_its_declaration_does_not(self):
        self.assertEqual(
            self.faults(**{
                "cli/a.cpp": "template <class T>\nstatic bool find(const T& in);\n"
                             "bool find(const T& in) {\n  return find(in.inner);\n}\n",
            }),
            ["cli/a.cpp:4: find()"],
        )

    def test_members_namespaces_other_names_comments_and_the_public_api_are_none(self):
        self.assertEqual(
            self.faults(**{
                "worker/hvd/include/hvd/hvd.h": "namespace hvd {\nint size();\n}\n",
                "worker/hvd/a.cpp": "#include <hvd/hvd.h>\nint n = size();\n"
                                    "void fill(int& one);\nvoid number_of(int& one);\n"
                                    "void f() {\n  hvdrun::fill(a);\n  a.fill(b);\n  a->fill(b);\n"
                                    "  number_of(a);\n  // fill(a)\n  say(\"fill(a)\");\n}\n",
            }),
            [],
        )


if __name__ == "__main__":
    unittest.main()
