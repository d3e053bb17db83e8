"""The include check finds what it promises to find: each test plants one include."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import check_layers  # noqa: E402  # from tests/

MESON = """\
common_base_lib = static_library('hvd_common_base',
  'error.cpp',
  include_directories: root_inc)
common_lib = static_library('hvd_common',
  'host_list.cpp',
  include_directories: root_inc)
"""
# A small project that breaks no rule.
CLEAN = {
    "common/meson.build": MESON,
    "common/error.h": "#include <string>\n",
    "common/error.cpp": '#include "common/error.h"\n',
    "common/host_list.h": '#include "common/error.h"\n',
    "common/host_list.cpp": '#include "common/host_list.h"\n',
    "common/stream.h": "#include <boost/asio.hpp>\n",
    "common/tls_settings.h": "#include <openssl/ssl.h>\n",
    "common/wrapped.h": '#include "common/stream.h"\n',
    "coordinator/job.h": '#include "common/host_list.h"\n',
    "cli/main.cpp": '#include "coordinator/job.h"\n#include "worker/agent/agent.h"\n',
    "worker/agent/agent.h": '#include "common/stream.h"\n',
    "worker/client/line.h": '#include "common/error.h"\n',
    "worker/comm/ring.h": '#include "worker/client/line.h"\n',
    "worker/comm/openssl.h": '#include <openssl/err.h>\n\n#include "common/tls_settings.h"\n',
    "worker/gpu/nccl.h": '#include "worker/comm/ring.h"\n',
    "worker/gpu/api_check.cpp": "#include <cuda.h>\n#include <nccl.h>\n",
    "worker/engine/engine.h": '#include "worker/gpu/nccl.h"\n',
    "worker/api/api.cpp": '#include <hvd/hvd.h>\n\n#include "worker/engine/engine.h"\n',
    "worker/torch/optimizer.cpp": "#include <torch/torch.h>\n",
    "worker/data/idx.h": "#include <vector>\n",
    "worker/labs/train.cpp": '#include <boost/any.hpp>\n#include "worker/data/idx.h"\n',
    "worker/include/hvd/hvd.h": "#include <cstdint>\n",
    "worker/include/hvd/torch.h": "#include <torch/torch.h>\n#include <hvd/hvd.h>\n",
    "tests/unit/comm/test_ring.cpp": "#include <catch2/catch.hpp>\n",
    "examples/hello.cpp": "#include <hvd/hvd.h>\n",
}


class CheckLayers(unittest.TestCase):
    def faults(self, **planted):
        """The faults of the clean project with lines appended to some files."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in CLEAN.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + planted.get(name, ""))
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
            ("common/error.cpp", '"coordinator/job.h"'),
            ("coordinator/job.h", '"worker/agent/agent.h"'),
            ("coordinator/job.h", '"worker/client/line.h"'),
            ("worker/agent/agent.h", '"coordinator/job.h"'),
            ("worker/agent/agent.h", '"worker/client/line.h"'),
            ("cli/main.cpp", '"worker/engine/engine.h"'),
            ("worker/client/line.h", '"worker/comm/ring.h"'),
            ("worker/comm/ring.h", '"worker/gpu/nccl.h"'),
            ("worker/gpu/nccl.h", '"worker/engine/engine.h"'),
            ("worker/engine/engine.h", '"worker/data/idx.h"'),
            ("worker/data/idx.h", '"worker/labs/train.cpp"'),
        ]:
            with self.subTest(name=name, include=include):
                self.assert_fault(name, include, "may not include")

    def test_libhvd_takes_only_the_base_part_of_common(self):
        for header in ["common/stream.h", "common/wrapped.h", "common/host_list.h"]:
            with self.subTest(header=header):
                self.assert_fault("worker/comm/ring.h", f'"{header}"', "hvd_common_base")
        self.assert_fault("worker/client/line.h", "<boost/asio.hpp>", "does without")
        self.assert_fault("common/error.cpp", "<spdlog/spdlog.h>", "does without")
        # The types of OpenSSL's functions have their places.
        self.assert_fault("worker/comm/ring.h", "<openssl/ssl.h>", "does without")
        heavy = self.faults(**{"common/tls_settings.h": "#include <boost/asio.hpp>\n"})
        self.assertEqual([line.split(":")[0] for line in heavy], ["worker/comm/openssl.h"])

    def test_torch_stays_in_its_folders(self):
        self.assert_fault("worker/engine/engine.h", "<torch/torch.h>", "without LibTorch")
        self.assert_fault("worker/data/idx.h", "<ATen/ATen.h>", "without LibTorch")

    def test_the_toolkit_is_only_compared_with(self):
        for header in ["<cuda.h>", "<cuda_runtime_api.h>", "<nccl.h>"]:
            with self.subTest(header=header):
                self.assert_fault("worker/gpu/nccl.h", header, "without CUDA")

    def test_public_headers_need_only_the_standard_library(self):
        for include in ['"common/error.h"', "<boost/any.hpp>", "<torch/torch.h>", "<unistd.h>"]:
            with self.subTest(include=include):
                self.assert_fault("worker/include/hvd/hvd.h", include, "a public header")
        self.assert_fault("worker/include/hvd/torch.h", '"hvd/hvd.h"', "a public header")

    def test_includes_start_at_the_root(self):
        self.assert_fault("worker/comm/ring.h", '"line.h"', "does not start at the root")
        self.assert_fault("common/error.cpp", '"../common/error.h"', "does not start at the root")
        self.assert_fault("worker/api/api.cpp", '"hvd/hvd.h"', "as <hvd/hvd.h>")

    def test_unit_tests_include_what_their_subject_may(self):
        name = "tests/unit/comm/test_ring.cpp"
        self.assertEqual(self.faults(**{name: '#include "worker/comm/ring.h"\n'}), [])
        self.assert_fault(name, '"worker/engine/engine.h"', "may not include")


if __name__ == "__main__":
    unittest.main()
