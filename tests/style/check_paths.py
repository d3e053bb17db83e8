#!/usr/bin/python3
"""Fails when a page names a path that is not there.

The pages are README.md, CONTRIBUTING.md and those of docs/. Their links are checked, with the heading
behind a '#', and what they have in backquotes or in a block of commands and looks like a path of this
tree: a name with a source's extension, or one whose first folder is ours. A name may be the end of a
path, since a page that tells of worker/hvd/comm says `staging.*` for short. It may be a glob, or a
header and its source without their extensions.

In sources and scripts the pages that they refer to are checked. A folder or program of a build, as in
build/tests/cluster/link_shaper and in "$dir/worker/hvd/api", must have its meson.build.

usage: check_paths.py [ROOT]     prints FILE:LINE: what is wrong; exit code 1 when something is
"""

import fnmatch
import pathlib
import re
import sys

TOPS = [".ci", "cli", "common", "coordinator", "docs", "examples", "scripts", "tests", "worker"]
SUFFIXES = (".h", ".cpp", ".cu", ".cuh", ".py", ".md", ".def", ".map", ".build", ".*")
# Files of users and of other projects, which pages give as examples.
OF_OTHERS = {"cuda.h", "main.cpp", "nccl.h", "test_torch.py", "train.py"}
# A path in a folder of a build, by that folder's name or by a variable of a script.
BUILT = re.compile(r"(?:\$\{?\w+\}?|\bbuild[\w-]*)/((?:cli|common|coordinator|docs|tests|worker)/[\w./-]*\w)(?![$\w])")
# Folders whose files refer to no page, and the test that plants faults.
NOT_READ = ("docs/", "tests/fuzz/corpus/", "tests/style/test_check_paths.py")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"[A-Za-z0-9_.*/-]*[A-Za-z0-9_*/]")
PAGE = re.compile(r"(?<![\w/-])docs/[\w/-]+\.md")


def tree(root):
    """The files and folders below a root that pages may name."""
    found = {path.name for path in root.iterdir() if path.is_file()}
    for top in TOPS:
        if (root / top).is_dir():
            found.add(top)
        for path in (root / top).rglob("*"):
            if "__pycache__" not in path.parts:
                found.add(path.relative_to(root).as_posix())
    return found


class Tree:
    """Answers whether a path, the end of one or a glob is there."""

    def __init__(self, root):
        self.paths = tree(root)
        self.folders = {part for path in self.paths for part in path.split("/")[:-1]}
        self.ends = {"/".join(path.split("/")[at:])
                     for path in self.paths for at in range(path.count("/") + 1)}
        self.modules = {path[: -len(".h")] for path in self.paths if path.endswith(".h")}

    def has(self, name):
        name = name.rstrip("/")
        if "*" in name:
            return any(fnmatch.fnmatchcase(end, name) for end in self.ends)
        return name in self.ends or name in self.modules

    def is_ours(self, name):
        """Whether a word looks like a path of this tree."""
        if not NAME.fullmatch(name) or name in OF_OTHERS or name.startswith(("/", "*", "-")):
            return False
        first = name.split("/")[0]
        if "/" not in name:
            return len(name) > 4 and name.endswith(SUFFIXES) and not name.startswith(".")
        return first in TOPS or (first in self.folders and name.endswith(SUFFIXES))


def is_built(root, path):
    """Whether a build of this tree makes a path: a folder, or what a meson.build names."""
    if (root / path).exists():
        return True
    build = (root / path).parent / "meson.build"
    return build.exists() and f"'{pathlib.Path(path).name}'" in build.read_text(encoding="utf-8")


def check_built(root, line):
    """The faults of a line that names paths in folders of a build."""
    return [f"no build makes {path}" for path in BUILT.findall(line) if not is_built(root, path)]


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_link(root, page, target):
    """What is wrong with a link of a page, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    if not file.exists():
        return f"the link to {target} leads nowhere"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
        return f"{file.resolve().relative_to(root.resolve()).as_posix()} has no heading '#{anchor}'"
    return None


def words_of(lines):
    """(line number, word) of everything that is set in backquotes or in a block of commands."""
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            # A block may show code and output of all kinds: only what begins with a folder of ours.
            for word in line.split("#")[0].split():
                if word.split("/")[0] in TOPS and "/" in word:
                    yield number, word
        else:
            for code in CODE.findall(line):
                yield from ((number, word.rstrip(",;:")) for word in code.split())


def check_page(root, page, ours):
    """(line number, what is wrong) of each fault of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        for target in LINK.findall(line):
            if fault := check_link(root, page, target):
                yield number, fault
        yield from ((number, fault) for fault in check_built(root, line))
    for number, word in words_of(lines):
        if ours.is_ours(word) and not ours.has(word):
            yield number, f"there is no {word}"


def pages(root):
    named = [root / name for name in ("README.md", "CONTRIBUTING.md")]
    return [page for page in named if page.exists()] + sorted((root / "docs").rglob("*.md"))


def check(root):
    """All faults below `root`, as lines."""
    ours = Tree(root)
    bad = []
    for page in pages(root):
        name = page.relative_to(root).as_posix()
        bad += [f"{name}:{number}: {fault}" for number, fault in check_page(root, page, ours)]
    for path in sorted(ours.paths):
        file = root / path
        if path.startswith(NOT_READ) or path.endswith(".md") or not file.is_file():
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            bad += [f"{path}:{number}: there is no {page}"
                    for page in PAGE.findall(line) if not (root / page).exists()]
            if path.startswith(("scripts/", ".ci/")):
                bad += [f"{path}:{number}: {fault}" for fault in check_built(root, line)]
    return bad


if __name__ == "__main__":
    faults = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(faults) if faults else "all paths are there")
    sys.exit(1 if faults else 0)
