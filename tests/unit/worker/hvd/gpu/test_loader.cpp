// Every way in which a host lacks a GPU, tried for real: libraries that the test builds, put where
// the loader looks, and a process that asks.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <dlfcn.h>

#include "tests/catch.h"
#include "worker/hvd/gpu/kernels.h"
#include "worker/hvd/gpu/loader.h"

namespace {

namespace fs = std::filesystem;
using Catch::Contains;

std::string from_build(const char* variable) {
  const char* const value = std::getenv(variable);
  REQUIRE(value != nullptr);
  return value;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "hvd-gpu-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  // The stub of this name, as the file that the loader looks for.
  void put(const std::string& stub, const char* name) const {
    fs::create_symlink(fs::path(from_build("HVD_TEST_STUBS")) / ("stub_" + stub + ".so"),
                       path_ / name);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The output of gpu_probe, with the folder first in the loader's search.
std::string probe(const Folder& folder, const std::string& environment = "") {
  const std::string command = "LD_LIBRARY_PATH=" + folder.path().string() + " " + environment +
                              " " + from_build("HVD_TEST_GPU_PROBE") + " 2>&1";
  FILE* const pipe = ::popen(command.c_str(), "re");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 512> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  REQUIRE(::pclose(pipe) == 0);
  return text;
}

std::string driver_of(const std::string& stub) {
  const Folder folder;
  folder.put(stub, "libcuda.so.1");
  const std::string text = probe(folder);
  return text.substr(0, text.find('\n'));
}

std::string nccl_of(const std::string& stub) {
  const Folder folder;
  folder.put(stub, "libnccl.so.2");
  const std::string text = probe(folder);
  const auto begin = text.find("nccl:");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find('\n', begin) - begin);
}

bool is_here(const char* library) {
  void* const found = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (found != nullptr) ::dlclose(found);
  return found != nullptr;
}

}  // namespace

TEST_CASE("no driver is a line that names the library", "[gpu][loader]") {
  if (is_here("libcuda.so.1")) {
    WARN("this machine has a driver");
    return;
  }
  const Folder folder;
  CHECK_THAT(probe(folder), Catch::StartsWith("driver: there is no NVIDIA driver here: "
                                              "libcuda.so.1: cannot open shared object file"));
}

TEST_CASE("each fault of a driver is a line of its own", "[gpu][loader]") {
  CHECK(driver_of("cuda_works") == "driver: CUDA 13.0, 2");
  CHECK(driver_of("cuda_no_device") ==
        "driver: there is an NVIDIA driver, but no GPU that this process may use");
  CHECK(driver_of("cuda_none_visible") ==
        "driver: there is an NVIDIA driver, but no GPU that this process may use");
  CHECK(driver_of("cuda_init_fails") ==
        "driver: the NVIDIA driver does not start: cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH "
        "(system has unsupported display driver / cuda driver combination)");
  CHECK(driver_of("cuda_too_old") ==
        "driver: the NVIDIA driver is too old: it is for CUDA 10.2, and one for CUDA 11.4 or "
        "newer is needed; update the driver");
  CHECK(driver_of("cuda_lacks_symbols") ==
        "driver: the NVIDIA driver cannot be used: libcuda.so.1 has no cuDeviceGetCount");
  CHECK(driver_of("empty") == "driver: this is no NVIDIA driver: libcuda.so.1 has no cuInit");
}

TEST_CASE("a file that is no library is a line that says so", "[gpu][loader]") {
  const Folder folder;
  fs::create_symlink(from_build("HVD_TEST_GPU_SOURCE"), folder.path() / "libcuda.so.1");
  CHECK_THAT(probe(folder), Contains("there is no NVIDIA driver here: ") &&
                                Contains("libcuda.so.1: ") && Contains("nccl: "));
}

TEST_CASE("each fault of NCCL is a line that says what to do", "[gpu][loader]") {
  CHECK_THAT(nccl_of("nccl_works"),
             Catch::StartsWith("nccl: 2.14.3 from /") && Catch::EndsWith("/libnccl.so.2"));
  CHECK_THAT(nccl_of("nccl_too_old"),
             Catch::StartsWith("nccl: NCCL is too old: /") &&
                 Catch::EndsWith("/libnccl.so.2 is 2.8.3, and 2.14.3 or newer is needed; install "
                                 "libnccl2, or name another by HVD_NCCL_LIBRARY"));
  CHECK(nccl_of("nccl_lacks_symbols") ==
        "nccl: NCCL cannot be used: libnccl.so.2 has no ncclGetUniqueId; name another by "
        "HVD_NCCL_LIBRARY");
  CHECK(nccl_of("empty") ==
        "nccl: NCCL cannot be used: libnccl.so.2 has no ncclGetVersion; name another by "
        "HVD_NCCL_LIBRARY");
}

TEST_CASE("HVD_NCCL_LIBRARY is taken, and nothing else when it is wrong", "[gpu][loader]") {
  const Folder folder;
  folder.put("nccl_too_old", "libnccl.so.2");
  folder.put("nccl_works", "mine.so");
  const std::string mine = (folder.path() / "mine.so").string();
  CHECK_THAT(probe(folder, "HVD_NCCL_LIBRARY=" + mine), Contains("nccl: 2.14.3 from " + mine));
  CHECK_THAT(probe(folder, "HVD_NCCL_LIBRARY=/nowhere/libnccl.so.2"),
             Contains("nccl: NCCL cannot be loaded as HVD_NCCL_LIBRARY says: "
                      "/nowhere/libnccl.so.2: cannot open shared object file"));
}

TEST_CASE("no NCCL says what to install", "[gpu][loader]") {
  const bool here = is_here("libnccl.so.2") || fs::exists("/usr/local/cuda/lib64/libnccl.so.2");
  if (here) {
    WARN("this machine has NCCL");
    return;
  }
  CHECK_THAT(probe(Folder()), Contains("nccl: NCCL is not found (libnccl.so.2: ") &&
                                  Contains("): install libnccl2, or name its file: "
                                           "HVD_NCCL_LIBRARY=/path/libnccl.so.2"));
}

TEST_CASE("the real NCCL of the toolkit is loaded whole", "[gpu][loader]") {
  const std::string file = "/usr/local/cuda/lib64/libnccl.so.2";
  if (!fs::exists(file)) {
    WARN("there is no " + file);
    return;
  }
  const auto nccl = hvdrun::load_nccl(file);
  INFO(nccl.why);
  REQUIRE(nccl.value);
  CHECK(nccl.value->version >= hvdrun::nccl::kMinVersion);
  hvdrun::nccl::UniqueId id{};
  CHECK(nccl.value->api.get_unique_id(&id) == hvdrun::nccl::success);
}

TEST_CASE("the kernels that nvcc has built are loaded whole, without a GPU", "[gpu][loader]") {
  const std::string file = from_build("HVD_TEST_KERNELS");
  if (file.empty()) {
    WARN("this build has no nvcc");
    return;
  }
  const auto kernels = hvdrun::load_gpu_kernels(file);
  INFO(kernels.why);
  REQUIRE(kernels.value);
  CHECK(kernels.value->adasum_scratch() >= 3);
  CHECK(std::string(kernels.value->error_text(1)) == "invalid argument");
}

TEST_CASE("kernels that are missing or another version's are a line", "[gpu][loader]") {
  CHECK_THAT(
      hvdrun::load_gpu_kernels("/nowhere/libhvd_cuda.so").why,
      Catch::StartsWith("hvdrun's GPU kernels are not installed (/nowhere/libhvd_cuda.so: ") &&
          Catch::EndsWith("): they are built where nvcc is"));
  const fs::path stub = fs::path(from_build("HVD_TEST_STUBS")) / "stub_empty.so";
  CHECK(hvdrun::load_gpu_kernels(stub.string()).why ==
        "libhvd_cuda.so is of another version of hvdrun (interface unknown, not 2); install both "
        "from one build");
}

TEST_CASE("versions are written as people write them", "[gpu][loader]") {
  CHECK(hvdrun::cuda_version_text(13000) == "13.0");
  CHECK(hvdrun::cuda_version_text(11040) == "11.4");
  CHECK(hvdrun::nccl_version_text(22809) == "2.28.9");
  CHECK(hvdrun::nccl_version_text(2803) == "2.8.3");
}
