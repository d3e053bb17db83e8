"""Counts the test cases in Meson's testlog.json (one JSON object per program and line).

A Catch2 or unittest program counts with its test cases, any other as one. A program that failed
without a failed case in its summary (a crash, a timeout, a leak found at exit) counts as one failed
case more. Prints what was skipped and why, what failed with its first lines, then "N passed, N failed" and ", N skipped" when there
are any. Exit code 1 when something failed or nothing ran.
"""

import json
import re
import sys

ALL_PASSED = re.compile(r"^All tests passed \(.*? in (\d+) test cases?\)", re.MULTILINE)
SOME_FAILED = re.compile(r"^test cases: +(\d+) \|(.*)$", re.MULTILINE)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)


def numbers(text, *words):
    """The sum of the numbers before or after any of the words: "2 failed", "failures=2"."""
    found = 0
    for word in words:
        for match in re.finditer(rf"(\d+) {word}\b|\b{word}=(\d+)", text):
            found += int(match[1] or match[2])
    return found


def cases(log):
    """(passed, failed, skipped) as the program's own summary tells it, None without a summary."""
    if match := ALL_PASSED.search(log):
        return int(match[1]), 0, 0
    if match := SOME_FAILED.search(log):
        failed = numbers(match[2], "failed")
        skipped = numbers(match[2], "skipped")  # Catch2 3's SKIP()
        return int(match[1]) - failed - skipped, failed, skipped
    if match := UNITTEST.search(log):
        failed = numbers(match[3] or "", "failures", "errors")
        skipped = numbers(match[3] or "", "skipped")
        return int(match[1]) - failed - skipped, failed, skipped
    return None


def count(test):
    """(passed, failed, skipped, the reason of a skipped program) of one line of the log."""
    log = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
    counted = cases(log)
    if test["result"] == "SKIP":
        lines = [line for line in log.splitlines() if line.strip()]
        return 0, 0, 1, lines[-1].strip() if lines else "no reason given"
    if test["result"] in ("OK", "EXPECTEDFAIL"):
        passed, failed, skipped = counted or (1, 0, 0)
        return passed, failed, skipped, None
    passed, failed, skipped = counted or (0, 0, 0)
    return passed, max(failed, 1), skipped, None


def excerpts(log):
    """What failed, in few lines each: the name of the case and what stands below "FAILED", or, of a
    program without such a line (a sanitizer's report, a timeout), its last lines."""
    lines = log.splitlines()
    found = []
    for at, line in enumerate(lines):
        if line.endswith(": FAILED:") or line.startswith(("FAIL: ", "ERROR: ")):
            begin = at
            while begin > 0 and at - begin < 40 and not lines[begin].startswith("....."):
                begin -= 1
            name = [text for text in lines[max(begin - 4, 0):begin] if text.strip(" -.")][:1]
            found.append(name + lines[at:at + 12])
    if not found:
        errors = [at for at, line in enumerate(lines) if "ERROR: " in line or "WARNING: Thread" in line]
        found.append(lines[errors[0]:errors[0] + 40] if errors else lines[-20:])
    return found[:5]


def main(path):
    total = [0, 0, 0]
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            tests = [json.loads(line) for line in log if line.strip()]
    except FileNotFoundError:
        tests = []
    for test in tests:
        *counts, reason = count(test)
        total = [a + b for a, b in zip(total, counts)]
        if reason:
            print(f"skipped: {test['name']}: {reason}")
        if counts[1]:
            print(f"failed: {test['name']} ({test['result'].lower()})")
            for lines in excerpts((test.get("stdout") or "") + "\n" + (test.get("stderr") or "")):
                print("\n".join("  | " + line for line in lines))
    if not tests:
        print("no test ran")
        total[1] += 1
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
