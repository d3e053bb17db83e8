// An unmodified PyTorch program: torch.distributed with gloo and env://.
#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("an unmodified PyTorch DDP script trains", "[ddp]") {
  if (run({.args = {"/usr/bin/python3", "-c", "import torch"}}).exit_code != 0) {
    WARN("skipped: no /usr/bin/python3 with torch (Debian's python3-torch)");
    return;
  }
  const RunResult result =
      // Debian 13's PyTorch asks for libuv and is built without it.
      hvdrun({"-np", "2", "-x", "USE_LIBUV=0", "/usr/bin/python3",
              source_path("tests/integration/programs/ddp.py")},
             {.limit = 180s});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  for (const char* rank : {"0", "1"}) {
    const auto at = result.out.find(std::string("[") + rank + "]<stdout>:loss ");
    REQUIRE(at != std::string::npos);
    double first = 0;
    double last = 0;
    double weight = 0;
    REQUIRE(std::sscanf(result.out.c_str() + at, "[%*d]<stdout>:loss %lf to %lf weight %lf", &first,
                        &last, &weight) == 3);
    CHECK(last < first / 10);
  }
  // Both ranks hold the same weights, though each saw data of its own.
  const auto weight_of = [&](const char* rank) {
    const auto at = result.out.find(std::string("[") + rank + "]<stdout>:loss ");
    const auto from = result.out.find("weight ", at);
    return result.out.substr(from, result.out.find('\n', from) - from);
  };
  CHECK(weight_of("0") == weight_of("1"));
}

}  // namespace
}  // namespace hvdrun::test
