#!/usr/bin/python3
"""Fails when an #include goes against the layers of docs/architecture.md.

    common <- coordinator <- cli          common <- worker/agent <- cli
    common (its base part) <- client <- comm <- gpu <- engine <- api <- torch <- labs, data <- labs
                                                                                    (all in worker/)

An arrow points at who includes. Besides: a project include starts at the root of the project, a
public header (worker/include/hvd) includes only the standard library, <hvd/...> and, in torch.h,
<torch/...>, and the libraries that the worker must not need (Boost, spdlog, OpenSSL, LibTorch) stay
out of the folders that do without them.

usage: check_layers.py [ROOT]     prints FILE:LINE: what is wrong; exit code 1 when something is
"""

import pathlib
import re
import sys

# Who may include what. A key is the longest folder that matches a path.
WORKER = ["client", "comm", "gpu", "engine", "api", "torch", "labs"]
MAY_INCLUDE = {
    "common": {"common"},
    "coordinator": {"common", "coordinator"},
    "cli": {"common", "coordinator", "worker/agent", "cli"},
    "worker/agent": {"common", "worker/agent"},
    "worker/data": {"common", "worker/data"},
}
for position, name in enumerate(WORKER):
    MAY_INCLUDE[f"worker/{name}"] = {"common"} | {f"worker/{n}" for n in WORKER[: position + 1]}
MAY_INCLUDE["worker/labs"].add("worker/data")

# libhvd and libhvd_torch: of common/ they share only what common/meson.build lists in
# hvd_common_base, and headers that need no source.
BASE_ONLY = {f"worker/{name}" for name in WORKER if name != "labs"}

# Third-party headers that some folders do without.
NO_BOOST = re.compile(r"^(boost|spdlog|fmt|openssl|libssh2)")
# They take the types of OpenSSL's functions, which libhvd loads when a job needs them.
OPENSSL_TYPES = {"common/tls_settings.h", "worker/comm/openssl.h"}
# The public headers that may see LibTorch.
OF_TORCH = tuple(
    f"hvd/{name}.h"
    for name in ("torch", "callbacks", "elastic", "loss_scaler", "sync_batch_norm", "tensor_handle")
)
TORCH = re.compile(r"^(torch|ATen|c10)/")
# CUDA and NCCL are loaded at run time: our own declarations of them are what the code includes.
TOOLKIT = re.compile(r"^(cuda|cuda_[a-z0-9_]+|nccl)\.h$")
COMPARES_TOOLKIT = "worker/gpu/api_check.cpp"
MAY_TORCH = {"worker/torch", "worker/labs"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
# Folders of tests mirror those of the sources, and may include what their subject may.
TEST_MIRRORS = {
    "common": "common",
    "coordinator": "coordinator",
    "cli": "cli",
    **{n: f"worker/{n}" for n in ["agent", "data", *WORKER]},
}


def folder_of(path, folders):
    """The longest of the folders that contains the path, or None."""
    fitting = [f for f in folders if path == f or path.startswith(f + "/")]
    return max(fitting, key=len, default=None)


def includes_of(path):
    """(line number, is it quoted, name) of every #include of a file."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    found = [(number, INCLUDE.match(line)) for number, line in enumerate(lines, 1)]
    return [(number, match[1] == '"', match[2]) for number, match in found if match]


def too_much(path, name):
    """Whether an include is of a library that libhvd does without."""
    if path in OPENSSL_TYPES and name.startswith("openssl/"):
        return False
    return NO_BOOST.match(name) is not None


def base_sources(root):
    """The sources that common/meson.build lists in hvd_common_base."""
    build_file = root / "common/meson.build"
    text = build_file.read_text(encoding="utf-8") if build_file.exists() else ""
    call = re.search(r"\(\s*'hvd_common_base'(.*?)\n *[a-z_]+:", text, re.DOTALL)
    return set(re.findall(r"'([^']+\.cpp)'", call[1])) if call else set()


def base_headers(root):
    """The headers of common/ that libhvd may include: neither they nor what they include need
    Boost, spdlog or OpenSSL, and their source, when they have one, is in hvd_common_base."""
    listed = base_sources(root)
    includes = {
        f"common/{path.name}": [name for _, _, name in includes_of(path)]
        for path in (root / "common").glob("*.h")
    }
    heavy = set()
    for header, names in includes.items():
        source = pathlib.Path(header).with_suffix(".cpp")
        not_listed = (root / source).exists() and source.name not in listed
        if not_listed or any(too_much(header, name) for name in names):
            heavy.add(header)
    while more := {h for h, names in includes.items() if h not in heavy and heavy & set(names)}:
        heavy |= more
    return set(includes) - heavy


def check_public(path, name, quoted):
    """What is wrong with an include of a public header, or None."""
    if quoted:
        return f"a public header includes <hvd/...>, not \"{name}\""
    if name.startswith("hvd/") or re.fullmatch(r"[a-z_0-9]+", name):
        return None
    if path.endswith(OF_TORCH) and TORCH.match(name):
        return None
    return f"a public header may not include <{name}>"


def check_include(root, path, name, quoted, base):
    """What is wrong with one include, or None."""
    if path.startswith("worker/include/"):
        return check_public(path, name, quoted)
    own = folder_of(path, MAY_INCLUDE)
    if own is None and path.startswith("tests/unit/"):
        own = TEST_MIRRORS.get(path.split("/")[2])
        if quoted and name.startswith("tests/"):
            return None if (root / name).exists() else f"{name} is not there"
    if not quoted:
        if own in BASE_ONLY and too_much(path, name):
            return f"{own} does without <{name}>: libhvd links no Boost, spdlog or OpenSSL"
        if own is not None and path != COMPARES_TOOLKIT and TOOLKIT.match(name):
            return f"{own} builds without CUDA and may not include <{name}>"
        if own is not None and own not in MAY_TORCH and TORCH.match(name):
            return f"{own} builds without LibTorch and may not include <{name}>"
        return None
    if name == "hvdrun_config.h":
        return None
    if name.startswith("hvd/"):
        return f"public headers are included as <{name}>"
    if not (root / name).exists():
        return f"\"{name}\" does not start at the root of the project, or is not there"
    if own is None:
        return None
    target = folder_of(name, [*MAY_INCLUDE, "tests", "worker/include"])
    if target not in MAY_INCLUDE[own]:
        return f"{own} may not include {name}"
    if own in BASE_ONLY and target == "common" and name not in base:
        return f"{own} may include of common/ only what hvd_common_base has, so not {name}"
    return None


def sources(root):
    for top in ["common", "coordinator", "worker", "cli", "tests", "examples"]:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in {".h", ".cpp"}:
                yield path


def check(root):
    """All faults below `root`, as lines."""
    base = base_headers(root)
    bad = []
    for source in sorted(base_sources(root)):
        for number, _, name in includes_of(root / "common" / source):
            if NO_BOOST.match(name):
                bad.append(f"common/{source}:{number}: hvd_common_base does without <{name}>")
    for file in sources(root):
        path = file.relative_to(root).as_posix()
        for number, quoted, name in includes_of(file):
            if fault := check_include(root, path, name, quoted, base):
                bad.append(f"{path}:{number}: {fault}")
    return bad


if __name__ == "__main__":
    faults = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(faults) if faults else "includes follow the layers")
    sys.exit(1 if faults else 0)
