#!/usr/bin/python3
"""Fails for a comment that is hard to search or to follow.

A comment begins with its subject, so not with What, Of, Who, Whether and their like. A sentence of it
has at most 25 words. It stands at what it tells of: behind a comment comes code, and only the head of
a file and a heading, as in "// -- Tensors --", may stand alone.

usage: check_comments.py [ROOT [FOLDER...]]     prints FILE:LINE: what is wrong; exit code 1 when
something is
"""

import pathlib
import re
import sys

FOLDERS = ["common", "coordinator", "worker", "cli", "tests", "examples"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
MOST_WORDS = 25
NO_SUBJECT = re.compile(r"(What|Of|Who|Whose|Whom|Whether|How|Why|Which)\b")
COMMENT = re.compile(r"\s*//")
# The end of a sentence: a full stop and its like before a capital, a quotation or code. The semicolon
# and the colon divide what the reader takes in at once, too.
SENTENCE = re.compile(r"(?<=[.:;!?])\s+")


def blocks(lines):
    """(first line number, lines of the text, whether nothing follows) of each comment that has lines
    of its own."""
    at = 0
    while at < len(lines):
        if not COMMENT.match(lines[at]):
            at += 1
            continue
        end = at
        while end < len(lines) and COMMENT.match(lines[end]):
            end += 1
        text = [re.sub(r"^\s*//+ ?", "", line) for line in lines[at:end]]
        yield at + 1, text, end == len(lines) or not lines[end].strip()
        at = end


def prose(text):
    """The paragraphs of a comment, without examples, which are set in by spaces."""
    found = [""]
    for line in text:
        if not line.strip() or line.startswith("  "):
            found.append("")
        else:
            found[-1] += " " + line
    return [paragraph.strip() for paragraph in found if paragraph.strip()]


def faults_of(lines):
    """(line number, what is wrong) of each fault in a file."""
    for number, text, alone in blocks(lines):
        if text[0].startswith("--"):
            continue  # a heading
        if alone and number > 1:
            yield number, "a comment that stands at nothing: put it at what it tells of"
        for position, paragraph in enumerate(prose(text)):
            if position == 0 and (word := NO_SUBJECT.match(paragraph)):
                yield number, f"a comment begins with its subject, not with '{word[1]}'"
            for sentence in SENTENCE.split(paragraph):
                if len(sentence.split()) > MOST_WORDS:
                    yield number, f"a sentence of {len(sentence.split())} words: '{sentence[:40]}...'"


def check(root, folders):
    bad = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                bad += [f"{path.relative_to(root)}:{n}: {fault}" for n, fault in faults_of(lines)]
    return bad


if __name__ == "__main__":
    faults = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."), sys.argv[2:] or FOLDERS)
    print("\n".join(faults) if faults else "comments have subjects and places")
    sys.exit(1 if faults else 0)
