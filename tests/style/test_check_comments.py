"""The check of comments finds what it promises to find: each test plants one comment."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_comments  # noqa: E402


class CheckComments(unittest.TestCase):
    def faults(self, text):
        return [fault for _, fault in check_comments.faults_of(text.splitlines())]

    def test_a_plain_comment_is_none(self):
        self.assertEqual(self.faults("// The head of a file.\n\n// A host's words. They are short.\nint words;\n"), [])

    def test_a_comment_begins_with_its_subject(self):
        for word in ["What", "Of", "Who", "Whose", "Whether", "How", "Why", "Which"]:
            with self.subTest(word=word):
                self.assertEqual(len(self.faults(f"// {word} a host said.\nint words;\n")), 1)
        # Later paragraphs go on with the first one's, and words may begin alike.
        self.assertEqual(self.faults("// The host.\n//\n// What it says.\nint words;\n"), [])
        self.assertEqual(self.faults("// Offers are taken.\nint words;\n"), [])

    def test_a_sentence_has_an_end(self):
        words = "word " * 24
        self.assertEqual(self.faults(f"// {words}word.\nint x;\n"), [])
        self.assertIn("26 words", self.faults(f"// {words}word word.\nint x;\n")[0])
        self.assertEqual(self.faults(f"// {words}word. {words}word.\nint x;\n"), [])
        # An example is no sentence.
        self.assertEqual(self.faults(f"// So:\n//\n//     {words}word word\nint x;\n"), [])

    def test_a_comment_stands_at_something(self):
        self.assertIn("stands at nothing", self.faults("int x;\n// A table of hosts.\n\nint y;\n")[0])
        self.assertEqual(self.faults("int x;\n// -- Hosts --\n\nint y;\n"), [])

    def test_where_it_is(self):
        found = list(check_comments.faults_of(["int x;", "", "// Of hosts.", "int y;"]))
        self.assertEqual(found[0][0], 3)


if __name__ == "__main__":
    unittest.main()
