#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/refused_flush.h"
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using test::error_of;
using test::RefusedFlush;
using test::reset_fake_job;

TEST_CASE("a checkpoint needs no file system that can flush a folder", "[checkpoint]") {
  reset_fake_job();
  std::string folder = (std::filesystem::temp_directory_path() / "hvd-test-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/checkpoint";
  const auto save = [&](const std::string& text) {
    const auto write = [&](const std::string& file) { std::ofstream(file) << text; };
    return error_of([&] { hvd::checkpoint_on_root(path, write); }, hvd::ErrorCode::unavailable);
  };
  const auto saved = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const int refusal : {EINVAL, ENOTSUP}) {
    const RefusedFlush refused(refusal);
    CHECK(save(std::to_string(refusal)) == "no error");
    CHECK(refused.asked() == 1);
    CHECK(saved() == std::to_string(refusal));
  }
  {
    const RefusedFlush broken(EIO);
    CHECK_THAT(save("new"), Contains(folder + "/: Input/output error"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hvdrun
