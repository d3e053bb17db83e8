// An unmodified PyTorch program: torch.distributed with gloo and env://.
#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

bool has_torch() {
  if (run({.args = {"/usr/bin/python3", "-c", "import torch"}}).exit_code == 0) return true;
  WARN("skipped: no /usr/bin/python3 with torch (Debian's python3-torch)");
  return false;
}

TEST_CASE("a DDP script with a checkpoint goes on from it when its job starts again", "[ddp]") {
  if (!has_torch()) return;
  const std::string script = source_path("tests/integration/programs/ddp_restart.py");
  const auto weights = [&](std::vector<std::string> more) {
    const TempFolder folder;
    std::vector<std::string> args = {
        "-np",  "2",          "-x", "USE_LIBUV=0", "--max-restarts", "1", "/usr/bin/python3",
        script, folder.path()};
    const bool fails = !more.empty();
    args.insert(args.end(), more.begin(), more.end());
    const RunResult result = hvdrun(args, {.limit = 180s});
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(times_in(result.out, "begins with step 0\n") == 2);
    CHECK(times_in(result.out, "begins with step 20\n") == (fails ? 2 : 0));
    CHECK(times_in(result.err, "rank 1 on localhost") == (fails ? 1 : 0));
    CHECK(times_in(result.err, "restart 1 of 1 in 1 s\n") == (fails ? 1 : 0));
    const auto at = result.out.find("[0]<stdout>:loss ");
    REQUIRE(at != std::string::npos);
    return result.out.substr(at, result.out.find('\n', at) - at);
  };
  CHECK(weights({"25"}) == weights({}));
}

TEST_CASE("an unmodified PyTorch DDP script trains", "[ddp]") {
  if (!has_torch()) return;
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
