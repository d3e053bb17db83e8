"""A lab model is one file of less than 150 lines and one line in models.def (docs/adding-a-model.md)."""

import pathlib
import re
import unittest

MODELS = pathlib.Path(__file__).resolve().parents[2] / "worker/labs/models"
LISTED = re.findall(r"^HVD_LAB_MODEL\((\w+)\)$", (MODELS / "models.def").read_text(), re.MULTILINE)
# The default model; the only one that options of words are for. Help texts and the text lab's own
# program may name what they like.
MAY_NAME = {"options.cpp": {"text-nnlm", "mnist-cnn"}, "options.h": {"mnist-cnn"}}
FREE = {"option_rows.cpp", "text_tape_main.cpp"}


def name_of(model):
    """What --model calls it: the first text of its ModelInfo."""
    text = (MODELS / f"{model}.cpp").read_text()
    return re.search(rf'ModelInfo {model}\(\) \{{[^"]*"([^"]+)"', text)[1]


class ModelFiles(unittest.TestCase):
    def test_each_is_short(self):
        self.assertGreaterEqual(len(LISTED), 8)
        for model in LISTED:
            lines = (MODELS / f"{model}.cpp").read_text().count("\n")
            self.assertLess(lines, 150, f"{model}.cpp has {lines} lines")

    def test_nothing_else_knows_one_by_name(self):
        names = {name_of(model) for model in LISTED}
        self.assertLessEqual({"mnist-cnn", "resnet50", "text-nnlm"}, names)
        for path in [*MODELS.parent.glob("*.cpp"), *MODELS.parent.glob("*.h")]:
            if path.name in FREE:
                continue
            code = re.sub(r"//.*", "", path.read_text())
            found = {name for name in names if f'"{name}"' in code}
            self.assertLessEqual(found, MAY_NAME.get(path.name, set()), path.name)


if __name__ == "__main__":
    unittest.main()
