#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/output/output_files.h"
#include "cli/text/user_errors.h"
#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"

namespace hvdrun {
namespace {

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST_CASE("folders are padded to the width of the last rank", "[output]") {
  const test::TemporaryFolder folder;
  const auto first = [&](std::uint32_t np) {
    const OutputFiles files(folder / std::to_string(np), np);
    return files.path(0, OutputStream::out).substr(folder.path().size());
  };
  CHECK(first(1) == "/1/rank.0/stdout");
  CHECK(first(10) == "/10/rank.0/stdout");
  CHECK(first(11) == "/11/rank.00/stdout");
  CHECK(first(101) == "/101/rank.000/stdout");
}

TEST_CASE("every rank has its files, however few descriptors there are", "[output]") {
  const test::TemporaryFolder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = 200;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  OutputFiles files(folder / "out/deeper", 300);
  for (int round = 0; round < 3; ++round)
    for (std::uint32_t rank = 0; rank < 300; ++rank)
      CHECK_FALSE(files.write({rank, OutputStream::err, false, std::to_string(rank) + ";"}));
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(contents(folder / "out/deeper/rank.007/stderr") == "7;7;7;");
  CHECK(contents(folder / "out/deeper/rank.299/stderr") == "299;299;299;");
  CHECK(contents(folder / "out/deeper/rank.299/stdout").empty());
}

TEST_CASE("a job that starts again appends, also on fewer ranks", "[output]") {
  const test::TemporaryFolder folder;
  for (const std::uint32_t np : {11U, 2U}) {
    OutputFiles files(folder.path(), 11,
                      np == 11 ? OutputFiles::Begin::anew : OutputFiles::Begin::goes_on);
    CHECK(files.moved_to().empty());
    for (const std::uint32_t start : {0U, 1U})
      CHECK_FALSE(files.write({1, OutputStream::out, false, std::to_string(np) + ";", start}));
  }
  CHECK(contents(folder / "rank.01/stdout") == "11;2;");
  CHECK(contents(folder / "rank.01.1/stdout") == "11;2;");
}

TEST_CASE("an earlier run's files are moved aside, nobody else's", "[output]") {
  const test::TemporaryFolder folder;
  folder.write("rank.txt", "mine");
  for (int run = 1; run <= 3; ++run) {
    OutputFiles files(folder.path(), run == 1 ? 11 : 2);
    CHECK(files.moved_to() == (run == 1 ? "" : folder / ("run." + std::to_string(run - 1))));
    CHECK_FALSE(files.write({0, OutputStream::out, false, "run " + std::to_string(run)}));
  }
  CHECK(contents(folder / "run.1/rank.00/stdout") == "run 1");
  CHECK(contents(folder / "run.2/rank.0/stdout") == "run 2");
  CHECK(contents(folder / "rank.0/stdout") == "run 3");
  CHECK(contents(folder / "rank.txt") == "mine");
}

TEST_CASE("each process of a slot has files of its own, moved aside with the others", "[output]") {
  const test::TemporaryFolder folder;
  {
    OutputFiles files(folder.path(), 11);
    CHECK(files.path(3, OutputStream::err, 2) == folder / "rank.03.2/stderr");
    CHECK_FALSE(files.write({3, OutputStream::out, false, "first;"}));
    CHECK_FALSE(files.write({3, OutputStream::out, false, "second;", 1}));
    CHECK_FALSE(files.write({3, OutputStream::err, false, "trouble;", 1}));
    // The output of the one before may come later.
    CHECK_FALSE(files.write({3, OutputStream::out, false, "last;"}));
    CHECK_FALSE(files.write({3, OutputStream::out, false, "more;", 1}));
  }
  CHECK(contents(folder / "rank.03/stdout") == "first;last;");
  CHECK(contents(folder / "rank.03.1/stdout") == "second;more;");
  CHECK(contents(folder / "rank.03.1/stderr") == "trouble;");
  const OutputFiles next(folder.path(), 11);
  CHECK(contents(folder / "run.1/rank.03.1/stdout") == "second;more;");
}

TEST_CASE("a file that cannot be made is told of once", "[output]") {
  const test::TemporaryFolder folder;
  OutputFiles files(folder.path(), 2);
  folder.write("rank.1.1", "not a folder");
  CHECK(files.write({1, OutputStream::out, false, "x", 1}));
  CHECK_FALSE(files.write({1, OutputStream::out, false, "y", 1}));
  CHECK(files.write({1, OutputStream::err, false, "z", 1}));
}

TEST_CASE("two runs at a time do not share a folder", "[output]") {
  const test::TemporaryFolder folder;
  const OutputFiles files(folder.path(), 2);
  CHECK_THROWS_WITH(OutputFiles(folder.path(), 2),
                    Catch::Contains("another hvdrun is writing to " + folder.path()));
}

TEST_CASE("a folder that cannot be is bad usage", "[output]") {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  CHECK_THROWS_AS(OutputFiles(folder / "file", 2), UsageError);
  CHECK_THROWS_AS(OutputFiles(folder / "file/deeper", 2), UsageError);
  CHECK_THROWS_AS(OutputFiles("/proc/no", 2), UsageError);
}

}  // namespace
}  // namespace hvdrun
