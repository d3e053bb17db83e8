#!/usr/bin/python3
"""Fails when a file uses a name of the standard library whose header it does not have.

A compiler's library may bring more than its headers promise, and the next version less: libstdc++
13 no longer has std::uint16_t where only <string> is included. What counts is what a file includes,
itself or by headers of this project.

usage: check_includes.py [ROOT]     prints FILE: NAME needs <HEADER>; exit code 1 when something is
"""

import pathlib
import re
import sys

FOLDERS = ["common", "cli", "coordinator", "worker", "tests", "examples"]
# The names, and the headers of which each is promised to have them; the first is the one to write.
NAMES = [
    (r"\b(std::)?u?int(8|16|32|64|ptr)_t\b", ["cstdint", "stdint.h"]),
    (r"\bstd::(mem(cpy|set|cmp|move|chr)|str(len|n?cmp|n?cpy|chr|error))\b", ["cstring"]),
    (r"\bstd::(optional|nullopt)\b", ["optional"]),
    (r"\bstd::array\b", ["array"]),
    (r"\bstd::(runtime|logic|range|overflow)_error\b", ["stdexcept"]),
    (r"\bstd::(invalid_argument|out_of_range|length_error)\b", ["stdexcept"]),
    (r"\bstd::string_view\b", ["string_view"]),
    (r"\bstd::(unique|shared|weak)_ptr\b|\bstd::make_(unique|shared)\b", ["memory"]),
    (r"\bstd::function\b", ["functional"]),
    (r"\bstd::atomic\b", ["atomic"]),
    (r"\bstd::(thread|this_thread)\b", ["thread"]),
    (r"\bstd::(mutex|lock_guard|unique_lock)\b", ["mutex"]),
    (r"\bstd::condition_variable\b", ["condition_variable"]),
    (r"\bstd::chrono\b", ["chrono"]),
    (r"\bstd::(variant|visit|holds_alternative)\b", ["variant"]),
    (r"\bstd::span\b", ["span"]),
    (r"\bstd::numeric_limits\b", ["limits"]),
    (r"\bstd::(accumulate|iota|inner_product)\b", ["numeric"]),
    (
        r"\bstd::((stable_)?sort|find(_if)?|min|max|clamp|copy(_n)?|fill(_n)?|(any|all|none)_of"
        r"|reverse|count(_if)?|transform|(lower|upper)_bound|binary_search|remove_if|equal"
        r"|(min|max)_element|adjacent_find|for_each|unique|rotate|generate)\s*\(",
        ["algorithm"],
    ),
    (r"\bstd::(sqrt|pow|isfinite|isnan|log|exp|floor|ceil|lround|sin|cos|ldexp)\b", ["cmath"]),
    (r"\bstd::(f|sn)?printf\b|\bstd::(fputs|FILE|fflush|fopen|perror)\b", ["cstdio"]),
    (r"\bstd::(getenv|strto\w+|abort|exit|_Exit|malloc|free|ato[il]|atexit)\b", ["cstdlib"]),
    (r"\berrno\b", ["cerrno", "errno.h"]),
    (r"\bassert\(", ["cassert"]),
]
NAMES = [(re.compile(pattern), headers) for pattern, headers in NAMES]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


class Headers:
    """What a file includes, with what this project's headers include."""

    def __init__(self, root):
        self._root = root
        self._known = {}

    def of(self, path):
        if path in self._known:
            return self._known[path]
        self._known[path] = found = set()
        for name in INCLUDE.findall(path.read_text()):
            own = next(
                (p for p in (self._root / name, self._root / "worker/hvd/include" / name) if p.is_file()),
                None,
            )
            found |= self.of(own) if own else {name}
        return found


def check(root):
    """The faults as lines of text."""
    headers = Headers(root)
    faults = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            code = NO_CODE.sub(" ", "\n".join(
                line for line in path.read_text().split("\n") if not INCLUDE.match(line)))
            had = headers.of(path)
            for names, promised in NAMES:
                used = names.search(code)
                if used and not had.intersection(promised):
                    word = used.group(0).rstrip("( ")
                    faults.append(f"{path.relative_to(root)}: {word} needs <{promised[0]}>")
    return faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = check(root)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
