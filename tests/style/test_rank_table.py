#!/usr/bin/python3
"""The rank table is made in one place: the plan. Everybody else looks ranks up in that table. The
coordinator deals the ranks of later epochs out, in one place, too. A Horovod program's epochs have
their hosts' names in the order of its ranks: one more place reads those as a table.

A second computation could disagree with the first about who is which rank, and did cost a look at
every rank for each rank. A table that is copied, moved or received is none that is computed.

usage: test_rank_table.py     run by hand or by `meson test`
"""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("common", "coordinator", "worker", "cli")
MAKER = "cli/plan/launch_plan.cpp"
DEALER = "coordinator/elastic/rank_dealer.cpp"
HOROVOD = "coordinator/horovod/horovod_members.cpp"
# A table is made from hosts and a number: RankTable(a, b), RankTable name(a, b), {a, b} given to a
# member that is one, assign({a, b}).
MAKES = re.compile(
    r"\bRankTable(?:\s+\w+)?\s*[({]\s*[^)\s}]|\b\w*ranks_?\s*=\s*(?:RankTable\s*)?\{[^;]*,|"
    r"\bassign\(\s*(?:RankTable\s*)?\{|\bassign_ranks\b|make_(?:shared|unique)<(?:const )?RankTable>\(\s*\w[^()]*,"
)
# The table's own file defines the constructor.
TABLE = {"common/host/topology.h", "common/host/topology.cpp"}
COMMENT = re.compile(r"//[^\n]*")


def makers(root):
    """PATH:LINE of every place that makes a table of hosts."""
    found = []
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cpp") or name in TABLE:
                continue
            text = COMMENT.sub("", path.read_text(encoding="utf-8"))
            if "RankTable" not in text and "JobSpec" not in text and "topology.h" not in text:
                continue
            found += [f"{name}:{text.count(chr(10), 0, m.start()) + 1}" for m in MAKES.finditer(text)]
    return found


class RankTable(unittest.TestCase):
    def test_only_the_plan_makes_one(self):
        found = makers(ROOT)
        others = [place for place in found if not place.startswith((MAKER + ":", DEALER + ":", HOROVOD + ":"))]
        self.assertEqual(others, [])
        self.assertTrue(found, "the plan's own is not seen: the check is blind")

    def test_another_one_is_seen(self):
        for line in (
            "auto places = RankTable(spec.hosts(), spec.np()).places();",
            "const RankTable table{hosts, np};",
            "spec.ranks = {hosts, 3};",
            "members.assign({hosts, np});",
            "auto shared = std::make_shared<const RankTable>(hosts, np);",
        ):
            with self.subTest(line), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "coordinator" / "a.cpp"
                path.parent.mkdir()
                path.write_text('#include "common/host/topology.h"\n// RankTable\n' + line + "\n")
                self.assertEqual(makers(pathlib.Path(folder)), ["coordinator/a.cpp:3"])

    def test_looking_up_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "cli" / "a.cpp"
            path.parent.mkdir()
            path.write_text("void f(const RankTable& ranks);\nvoid g(RankTable table);\n"
                            "class Membership { void assign(RankTable table); };\n"
                            "members.assign(spec.ranks);\nRankTable table;\nRankTable() = default;\n")
            self.assertEqual(makers(pathlib.Path(folder)), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
