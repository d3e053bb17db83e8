#include "common/base/limits.h"
#include "common/wire/file_path.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("a plain path stays below its folder and can be printed", "[files]") {
  const std::string long_name(255, 'n');
  for (const std::string& path :
       {std::string("a"), std::string("ckpts/epoch 1.pt"), std::string("a/b/c"), long_name,
        std::string("..a/b..c/..."), std::string("\xc3\xa4")}) {
    CAPTURE(path);
    CHECK(is_plain_path(path));
  }
  std::string deep = "f";
  for (std::size_t depth = 1; depth < limits::kMaxFileDepth; ++depth) deep = "d/" + deep;
  CHECK(is_plain_path(deep));
  std::string wide;
  while (wide.size() <= limits::kMaxFilePath) wide += long_name + "/";
  for (const std::string& path :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string(".."), std::string("a/../b"), std::string("../a"), std::string("a/.."),
        std::string("a\nb"), std::string("a\x1b[2J"), std::string("a\x7f"), std::string("a\0b", 3),
        std::string(".hvdrun-1-2"), std::string("a/.hvdrun-1"), long_name + "n", "d/" + deep,
        wide + "a"}) {
    CAPTURE(path.size(), path.substr(0, 40));
    CHECK_FALSE(is_plain_path(path));
  }
}

}  // namespace
}  // namespace hvdrun
