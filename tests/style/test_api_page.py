"""docs/api.md has every public name and signature, and its complete programs compile."""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "worker/hvd/include"
HEADERS = sorted(path.name for path in (INCLUDE / "hvd").glob("*.h"))
PAGE = (ROOT / "docs/api.md").read_text()

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"(?:enum class|class|struct) (\w+)[^(;]*\{")
CALL = re.compile(r"(\w+)\(")


def plain(code):
    """One line, however the code was broken into lines."""
    return re.sub(r" ?([^\w ]) ?", r"\1", " ".join(code.split()))


def end_of(text, at):
    """The place behind the bracket that closes the one at this place."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] in "({") - (text[place] in ")}")
        if depth == 0:
            return place + 1
    raise ValueError("a bracket without an end")


def declarations(text):
    """What stands in a namespace or a class, each with its body."""
    begin = at = 0
    while at < len(text):
        if text[at] == "(":
            at = end_of(text, at)
        elif text[at] == "{":
            at = end_of(text, at)
            if text[at : at + 1] not in (";", ","):  # a function's body, or a member's value
                yield text[begin:at]
                begin = at
        elif text[at] == ";":
            yield text[begin:at]
            begin = at = at + 1
        else:
            at += 1


@functools.lru_cache(maxsize=None)
def api(header):
    """Of namespace hvd: names with their kinds, signatures of exported functions, of methods."""
    text = re.sub(r"//.*|^#.*", "", (INCLUDE / "hvd" / header).read_text(), flags=re.MULTILINE)
    text = plain(re.sub(r"\bHVD_EXPORT\b", "HVD_EXPORT ", text))
    begin = text.index("namespace hvd{") + len("namespace hvd")
    names, signatures, methods = set(), [], []
    collect(text[begin + 1 : end_of(text, begin) - 1], names, signatures, methods)
    return names, signatures, methods


def collect(text, names, signatures, methods, of_class=False):
    for declaration in declarations(text):
        declaration = re.sub(r"^(?:public:|template<[^>]*>)", "", declaration)
        inner = re.match(r"namespace (?!detail)\w+\{", declaration)
        if inner:
            collect(declaration[inner.end() : -1], names, signatures, methods)
            continue
        exported = "HVD_EXPORT " in declaration
        declaration = declaration.replace("HVD_EXPORT ", "")
        if declaration.startswith(("private:", "protected:")):
            return
        if declaration.startswith("namespace detail") or "operator" in declaration.split("(")[0]:
            continue
        kind = TYPE.match(declaration)
        call = CALL.search(declaration)
        if kind:
            names.add((kind[1], "name"))
            body = declaration[kind.end() : -1]
            if declaration.startswith("enum"):
                names |= {(word, "name") for word in re.findall(r"([a-z]\w*)", body)}
            else:
                collect(body, names, signatures, methods, of_class=True)
        elif call:
            if not re.search(r"=delete|=default|~|TORCH_MODULE", declaration):
                names.add((call[1], "function"))
                if of_class:
                    end = end_of(declaration, call.end() - 1)
                    constant = "const" if re.match(r"const\b", declaration[end:]) else ""
                    methods.append(declaration[:end] + constant)
            if exported:
                signatures.append(declaration[: end_of(declaration, call.end() - 1)])
        elif member := re.search(r"[\w>*] ?\*?\b(\w+)(?:=.*|\{.*)?$", declaration):
            if not declaration.startswith(("static", "using", "struct", "class")):
                names.add((member[1], "name"))


def missing(page, headers):
    """What the page lacks: names that no code on it has, signatures that no block has."""
    blocks = "".join(BLOCK.findall(page))
    code = blocks + "\n".join(re.findall(r"`([^`\n]+)`", BLOCK.sub("", page)))
    words = {"name": set(re.findall(r"\w+", code)), "function": set(CALL.findall(code))}
    one_line = plain(blocks)
    lacks = []
    for header in headers:
        names, signatures, methods = api(header)
        lacks += [name for name, kind in sorted(names) if name not in words[kind]]
        lacks += [signature for signature in signatures if signature not in one_line]
        # What follows a method's bracket is compared, too: it may be const.
        lacks += [
            method
            for method in methods
            if not re.search(re.escape(method) + r"(?!const\b)", one_line)
        ]
    return lacks


class ApiPage(unittest.TestCase):
    def test_every_public_name_and_signature_is_there(self):
        self.assertEqual(missing(PAGE, HEADERS), [])

    def test_the_headers_are_read_right(self):
        found = {name for header in HEADERS for name, _ in api(header)[0]}
        some = "init size_of wait code Handle DataTypeOf adasum boolean peer_lost process_sets bits"
        some += " broadcast_ received_splits bucket_bytes synchronize step fp16 update best patience"
        some += " synchronize_all allreduce_async_ groups value growth_interval"
        some += " TorchState max_failures CommitEvery"
        some += " end_epoch on_epoch_begin SyncBatchNormImpl forward pretty_print negotiations name"
        self.assertEqual(set(some.split()) - found, set())
        hidden = "element_size impl_ Impl adjust code_ best_ scale_ runtime_error T DataType1"
        self.assertEqual(set(hidden.split()) & found, set())
        self.assertNotIn(("value", "name"), api("hvd.h")[0])  # a static member
        for header in HEADERS:
            text = (INCLUDE / "hvd" / header).read_text()
            self.assertEqual(len(api(header)[1]), text.count("\nHVD_EXPORT "), header)

    def test_a_name_that_is_taken_away_is_missed(self):
        for header in HEADERS:
            for name, _ in api(header)[0]:
                with self.subTest(name=name):
                    self.assertIn(name, missing(re.sub(rf"\b{name}\b", "gone", PAGE), [header]))

    def test_a_signature_that_has_changed_is_missed(self):
        for header in HEADERS:
            for signature in api(header)[1]:
                name = CALL.search(signature)[1]
                page = re.sub(rf"(?<![<:])\b{name}\(", f"{name}(int changed, ", PAGE)
                with self.subTest(signature=signature):
                    self.assertIn(signature, missing(page, [header]))

    def test_a_method_that_is_const_by_mistake_is_missed(self):
        for page, method in (
            (PAGE.replace("scale(const at::Tensor& loss)", "scale(const at::Tensor& loss) const"),
             "at::Tensor scale(const at::Tensor&loss)"),
            (PAGE.replace("double value() const", "double value()"), "double value()const"),
        ):
            self.assertEqual(missing(page, ["loss_scaler.h"]), [method])

    def test_complete_programs_compile(self):
        programs = [block for block in BLOCK.findall(PAGE) if "int main(" in block]
        self.assertTrue(programs)
        command = shlex.split(os.environ.get("CXX", "g++"))
        command += ["-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only"]
        for program in programs:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "main.cpp"
                file.write_text(program)
                command_line = [*command, f"-I{INCLUDE}", str(file)]
                ran = subprocess.run(command_line, capture_output=True, text=True)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
