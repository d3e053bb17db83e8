#!/usr/bin/python3
"""Fails when an #include goes against the layers and rooms of docs/architecture.md.

    common <- coordinator <- cli          common <- worker/agent <- cli
    common (its base part) <- worker/hvd <- worker/labs, common <- worker/labs/data <- worker/labs

An arrow points at who includes. A folder's rooms stand in LAYERS, lowest first: a room includes
itself, the rooms before it, and the layers below its own. Besides: a project include starts at the
root of the project, a public header (worker/hvd/include) includes only the standard library,
<hvd/...> and, where it is LibTorch's, <torch/...>, and the libraries that the worker must not need
(Boost, spdlog, OpenSSL, LibTorch) stay out of the folders that do without them.

usage: check_layers.py [ROOT]     prints FILE:LINE: what is wrong; exit code 1 when something is
"""

import pathlib
import re
import sys

COMM = "worker/hvd/comm"
# A layer: the layers below it, and its rooms, lowest first. A room is the longest folder that matches
# a path, so "cli" means the files that stand in cli/ itself.
LAYERS = {
    "common": ([], [f"common/{r}" for r in ("base", "host", "process", "net", "wire", "horovod")]),
    "coordinator": (["common"], ["coordinator/elastic", "coordinator/horovod", "coordinator"]),
    "agent": (
        ["common"],
        [*(f"worker/agent/{r}" for r in ("ranks", "stalls", "output", "horovod")), "worker/agent"],
    ),
    "cli": (
        ["common", "coordinator", "agent"],
        ["cli/text", "cli/hosts", "cli/options", "cli/openers", "cli/openers/ssh", "cli/openers/srun",
         "cli/output", "cli/timeline", "cli/plan", "cli/run", "cli"],
    ),
    "hvd": (
        ["common"],
        ["worker/hvd/client", f"{COMM}/reduce", COMM, f"{COMM}/shm", f"{COMM}/link", f"{COMM}/hosts",
         *(f"worker/hvd/{r}" for r in ("gpu", "engine", "elastic", "api", "torch"))],
    ),
    "data": (["common"], [f"worker/labs/data/{r}" for r in ("files", "images", "text", "synthetic")]),
    "labs": (
        ["common", "hvd", "data"],
        [f"worker/labs/{r}"
         for r in ("base", "batches", "models", "options", "checkpoint", "report", "train")],
    ),
}
LAYER_OF = {room: layer for layer, (_, rooms) in LAYERS.items() for room in rooms}


def below(layer):
    """The rooms of the layers that a layer stands on."""
    return {room for lower in LAYERS[layer][0] for room in LAYERS[lower][1]}


# Who may include what. A key is the longest folder that matches a path.
MAY_INCLUDE = {
    room: below(layer) | set(rooms[: position + 1])
    for layer, (_, rooms) in LAYERS.items()
    for position, room in enumerate(rooms)
}

# libhvd and libhvd_torch: of common/ they share only what common/meson.build lists in
# hvd_common_base, and headers that need no source.
BASE_ONLY = set(LAYERS["hvd"][1])
# The rooms that hvd_common_base may have files of.
BASE_ROOMS = {"base", "host", "net", "wire"}

# Third-party headers that some folders do without.
NO_BOOST = re.compile(r"^(boost|spdlog|fmt|openssl|libssh2)")
# They take the types of OpenSSL's functions, which libhvd loads when a job needs them.
OPENSSL_TYPES = {"common/net/tls_settings.h", "worker/hvd/comm/link/openssl.h"}
# The public headers that may see LibTorch.
OF_TORCH = tuple(
    f"hvd/{name}.h"
    for name in ("torch", "callbacks", "elastic", "loss_scaler", "sync_batch_norm", "tensor_handle")
)
TORCH = re.compile(r"^(torch|ATen|c10)/")
# The build makes these in its own folder.
GENERATED = {"hvdrun_config.h", "cli/start_agent_script.h"}
# CUDA and NCCL are loaded at run time: our own declarations of them are what the code includes.
TOOLKIT = re.compile(r"^(cuda|cuda_[a-z0-9_]+|nccl)\.h$")
COMPARES_TOOLKIT = "worker/hvd/gpu/api_check.cpp"
MAY_TORCH = {"worker/hvd/torch", *LAYERS["labs"][1]}
PUBLIC = "worker/hvd/include/"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
# Folders of tests mirror those of the sources. A test may include what its subject's folder may.
TESTS = "tests/unit/"


def folder_of(path, folders):
    """The longest of the folders that contains the path, or None."""
    fitting = [f for f in folders if path == f or path.startswith(f + "/")]
    return max(fitting, key=len, default=None)


def room_of(path):
    """The room whose rules hold for a file; for a unit test the highest of its subject's folder."""
    if not path.startswith(TESTS):
        return folder_of(path, MAY_INCLUDE)
    # The tests of a folder above the rooms (worker/labs/meson.build's helpers) are of its first one.
    own = path[len(TESTS):]
    room = folder_of(own, MAY_INCLUDE) or next(
        (r for r in MAY_INCLUDE if r.startswith(own.rsplit("/", 1)[0] + "/")), None)
    if room is None:
        return None
    # libhvd's folders are layers of their own; comm/ alone has rooms.
    alike = "/".join(room.split("/")[:3]) if LAYER_OF[room] == "hvd" else ""
    return [r for r in LAYERS[LAYER_OF[room]][1] if r.startswith(alike)][-1]


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
        path.relative_to(root).as_posix(): [name for _, _, name in includes_of(path)]
        for path in (root / "common").rglob("*.h")
    }
    heavy = set()
    for header, names in includes.items():
        source = pathlib.Path(header).with_suffix(".cpp")
        not_listed = (root / source).exists() and source.relative_to("common").as_posix() not in listed
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
    if path.startswith(PUBLIC):
        return check_public(path, name, quoted)
    own = room_of(path)
    if path.startswith(TESTS) and quoted and name.startswith("tests/"):
        return None if (root / name).exists() else f"{name} is not there"
    if not quoted:
        if own in BASE_ONLY and too_much(path, name):
            return f"{own} does without <{name}>: libhvd links no Boost, spdlog or OpenSSL"
        if own is not None and path != COMPARES_TOOLKIT and TOOLKIT.match(name):
            return f"{own} builds without CUDA and may not include <{name}>"
        if own is not None and own not in MAY_TORCH and TORCH.match(name):
            return f"{own} builds without LibTorch and may not include <{name}>"
        return None
    if name in GENERATED:
        return None
    if name.startswith("hvd/"):
        return f"public headers are included as <{name}>"
    if not (root / name).exists():
        return f"\"{name}\" does not start at the root of the project, or is not there"
    if own is None:
        return None
    target = folder_of(name, [*MAY_INCLUDE, "tests", PUBLIC.rstrip("/")])
    if target not in MAY_INCLUDE[own]:
        return f"{own} may not include {name}"
    if own in BASE_ONLY and LAYER_OF[target] == "common" and name not in base:
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
        if source.split("/")[0] not in BASE_ROOMS:
            bad.append(f"common/{source}: hvd_common_base has only files of {', '.join(sorted(BASE_ROOMS))}")
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
