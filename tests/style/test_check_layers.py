"""The include check finds what it promises to find: each test plants one include."""

import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_layers  # noqa: E402

MESON = """\
common_base_lib = static_library('hvd_common_base',
  'base/error.cpp',
  include_directories: root_inc)
common_lib = static_library('hvd_common',
  'host/topology.cpp',
  include_directories: root_inc)
"""
# A small project that breaks no rule.
CLEAN = {
    "common/meson.build": MESON,
    "common/base/error.h": "#include <string>\n",
    "common/base/error.cpp": '#include "common/base/error.h"\n',
    "common/host/topology.h": '#include "common/base/error.h"\n',
    "common/host/topology.cpp": '#include "common/host/topology.h"\n',
    "common/net/stream.h": "#include <boost/asio.hpp>\n",
    "common/net/tls_settings.h": "#include <openssl/ssl.h>\n",
    "common/wire/wrapped.h": '#include "common/net/stream.h"\n',
    "coordinator/job.h": '#include "common/host/topology.h"\n',
    "cli/text/words.h": "#include <string>\n",
    "cli/plan/launch.h": '#include "cli/text/words.h"\n',
    "cli/main.cpp": '#include "cli/plan/launch.h"\n#include "coordinator/job.h"\n#include "worker/agent/agent.h"\n',
    "worker/agent/agent.h": '#include "common/net/stream.h"\n',
    "worker/hvd/client/line.h": '#include "common/base/error.h"\n',
    "worker/hvd/comm/ring.h": '#include "worker/hvd/client/line.h"\n',
    "worker/hvd/comm/link/openssl.h": '#include <openssl/err.h>\n\n#include "common/net/tls_settings.h"\n',
    "worker/hvd/gpu/nccl.h": '#include "worker/hvd/comm/ring.h"\n',
    "worker/hvd/gpu/api_check.cpp": "#include <cuda.h>\n#include <nccl.h>\n",
    "worker/hvd/engine/engine.h": '#include "worker/hvd/gpu/nccl.h"\n',
    "worker/hvd/api/api.cpp": '#include <hvd/hvd.h>\n\n#include "worker/hvd/engine/engine.h"\n',
    "worker/hvd/torch/optimizer.cpp": "#include <torch/torch.h>\n",
    "worker/labs/data/files/idx.h": "#include <vector>\n",
    "worker/labs/train/train.cpp": '#include <boost/any.hpp>\n#include "worker/labs/data/files/idx.h"\n',
    "worker/hvd/include/hvd/hvd.h": "#include <cstdint>\n",
    "worker/hvd/include/hvd/torch.h": "#include <torch/torch.h>\n#include <hvd/hvd.h>\n",
    "tests/unit/worker/hvd/comm/test_ring.cpp": "#include <catch2/catch.hpp>\n",
    "examples/hello.cpp": "#include <hvd/hvd.h>\n",
}

class CheckLayers(unittest.TestCase):
    def faults(self, **planted):
        """The faults of the clean project with lines appended to some files, a meson.build replaced."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in CLEAN.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                more = planted.get(name, "")
                path.write_text(more if more and name.endswith("meson.build") else text + more)
            return check_layers.check(root)

    def assert_fault(self, name, include, expected):
        faults = self.faults(**{name: f"#include {include}\n"})
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(f"{name}:", faults[0])
        self.assertIn(expected, faults[0])

    def test_a_clean_project_has_no_fault(self):
        self.assertEqual(self.faults(), [])

    def test_an_include_against_an_arrow_is_a_fault(self):
        for name, include in [
            ("common/base/error.cpp", '"coordinator/job.h"'),
            ("coordinator/job.h", '"worker/agent/agent.h"'),
            ("coordinator/job.h", '"worker/hvd/client/line.h"'),
            ("worker/agent/agent.h", '"coordinator/job.h"'),
            ("worker/agent/agent.h", '"worker/hvd/client/line.h"'),
            ("cli/main.cpp", '"worker/hvd/engine/engine.h"'),
            ("worker/hvd/client/line.h", '"worker/hvd/comm/ring.h"'),
            ("worker/hvd/comm/ring.h", '"worker/hvd/gpu/nccl.h"'),
            ("worker/hvd/gpu/nccl.h", '"worker/hvd/engine/engine.h"'),
            ("worker/hvd/engine/engine.h", '"worker/labs/data/files/idx.h"'),
            ("worker/labs/data/files/idx.h", '"worker/labs/train/train.cpp"'),
            # Between the rooms of one folder.
            ("common/base/error.cpp", '"common/net/stream.h"'),
            ("cli/text/words.h", '"cli/plan/launch.h"'),
            ("worker/hvd/comm/ring.h", '"worker/hvd/comm/link/openssl.h"'),
        ]:
            with self.subTest(name=name, include=include):
                self.assert_fault(name, include, "may not include")

    def test_libhvd_takes_only_the_base_part_of_common(self):
        for header in ["common/net/stream.h", "common/wire/wrapped.h", "common/host/topology.h"]:
            with self.subTest(header=header):
                self.assert_fault("worker/hvd/comm/ring.h", f'"{header}"', "hvd_common_base")
        self.assert_fault("worker/hvd/client/line.h", "<boost/asio.hpp>", "does without")
        self.assert_fault("common/base/error.cpp", "<spdlog/spdlog.h>", "does without")
        # The types of OpenSSL's functions have their places.
        self.assert_fault("worker/hvd/comm/ring.h", "<openssl/ssl.h>", "does without")
        heavy = self.faults(**{"common/net/tls_settings.h": "#include <boost/asio.hpp>\n"})
        self.assertEqual([line.split(":")[0] for line in heavy], ["worker/hvd/comm/link/openssl.h"])

    def test_libhvd_takes_only_files_of_some_rooms(self):
        with_process = MESON.replace("'base/error.cpp',", "'base/error.cpp', 'process/process.cpp',")
        faults = self.faults(**{"common/meson.build": with_process})
        self.assertEqual(len(faults), 1, faults)
        self.assertIn("hvd_common_base has only files of", faults[0])

    def test_torch_stays_in_its_folders(self):
        self.assert_fault("worker/hvd/engine/engine.h", "<torch/torch.h>", "without LibTorch")
        self.assert_fault("worker/labs/data/files/idx.h", "<ATen/ATen.h>", "without LibTorch")

    def test_the_toolkit_is_only_compared_with(self):
        for header in ["<cuda.h>", "<cuda_runtime_api.h>", "<nccl.h>"]:
            with self.subTest(header=header):
                self.assert_fault("worker/hvd/gpu/nccl.h", header, "without CUDA")

    def test_public_headers_need_only_the_standard_library(self):
        for include in ['"common/base/error.h"', "<boost/any.hpp>", "<torch/torch.h>", "<unistd.h>"]:
            with self.subTest(include=include):
                self.assert_fault("worker/hvd/include/hvd/hvd.h", include, "a public header")
        self.assert_fault("worker/hvd/include/hvd/torch.h", '"hvd/hvd.h"', "a public header")

    def test_includes_start_at_the_root(self):
        self.assert_fault("worker/hvd/comm/ring.h", '"line.h"', "does not start at the root")
        self.assert_fault("common/base/error.cpp", '"../base/error.h"', "does not start at the root")
        self.assert_fault("worker/hvd/api/api.cpp", '"hvd/hvd.h"', "as <hvd/hvd.h>")

    def test_unit_tests_include_what_their_subject_may(self):
        name = "tests/unit/worker/hvd/comm/test_ring.cpp"
        self.assertEqual(self.faults(**{name: '#include "worker/hvd/comm/ring.h"\n'}), [])
        self.assert_fault(name, '"worker/hvd/engine/engine.h"', "may not include")

class Page(unittest.TestCase):
    def test_the_page_of_the_architecture_has_the_rooms_in_this_order(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        page = (root / "docs/architecture.md").read_text(encoding="utf-8")
        told = {}
        for folder, cell in re.findall(r"^\| `([a-z/]+)/` \| ([^|;]+)", page, re.MULTILINE):
            names = [f"{folder}/{name}" for name in re.findall(r"`([a-z/]+)`", cell)]
            told.setdefault(folder, [name for name in names if (root / name).is_dir()])
        for layer, (_, rooms) in check_layers.LAYERS.items():
            with self.subTest(layer):
                folders = [f for f in told if all(r == f or r.startswith(f + "/") for r in rooms)]
                below = [room for room in rooms if room not in folders]
                self.assertIn(below, [told[f] for f in folders])

if __name__ == "__main__":
    unittest.main()
