// scripts/fetch-dataset against a server on loopback: sums, parts, faults.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

// "hello, world\n" a thousand times has this sum; so has nothing else here.
constexpr const char* kSum = "54855e60b3cbc290597f3eb28e03d58f";

std::string greetings() {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "hello, world\n";
  return text;
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class FetchFixture {
 protected:
  RunResult fetch(const std::string& name = "greetings") {
    return run({.args = {source_path("scripts/fetch-dataset"), name, target_},
                .env = {{"HVD_DATASET_LIST", list_}, {"no_proxy", "*"}},
                .limit = 60s});
  }
  // A set of the one file `hello`, at these folders on servers.
  void write_list(const std::string& urls, const std::string& sum = kSum) {
    std::ofstream(list_) << "# set, sum, file, folders\ngreetings " << sum << " hello " << urls
                         << "\nothers 0 x http://127.0.0.1:1\n";
  }
  std::string start_server(const std::string& ranges = "ranges") {
    server_.emplace(RunOptions{.args = {"/usr/bin/python3",
                                        source_path("tests/integration/programs/file_server.py"),
                                        served_.path(), ranges}});
    const std::string text = server_->wait_for_output(" \n", 20s);
    return "http://127.0.0.1:" + std::to_string(std::stoi(text.substr(text.find(' ') + 1)));
  }
  void serve(const std::string& content) { (void)served_.file("hello", content); }
  std::string part() const { return target_ + "/hello.part"; }
  std::string file() const { return target_ + "/hello"; }

  TempFolder served_;
  TempFolder work_;
  std::string list_ = work_.path() + "/list";
  std::string target_ = work_.path() + "/set";
  std::optional<Background> server_;
};

TEST_CASE_METHOD(FetchFixture, "a file with the right sum is fetched once", "[fetch]") {
  serve(greetings());
  // The first server is none; the second has it.
  write_list("http://127.0.0.1:1 " + start_server());
  RunResult result = fetch();
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(content_of(file()) == greetings());
  CHECK_FALSE(std::filesystem::exists(part()));
  result = fetch();
  CHECK(result.exit_code == 0);
  CHECK(result.out == file() + ": there already\n");
  // One that somebody has changed is fetched again.
  std::ofstream(file(), std::ios::app) << "x";
  result = fetch();
  CHECK(result.exit_code == 0);
  CHECK(content_of(file()) == greetings());
}

TEST_CASE_METHOD(FetchFixture, "what was cut off goes on, or begins again where it cannot",
                 "[fetch]") {
  serve(greetings());
  const auto [ranges, begun, requests] = GENERATE(table<const char*, std::string, const char*>({
      {"ranges", greetings().substr(0, 5000), "GET /hello from 5000\n"},
      {"no-ranges", greetings().substr(0, 5000), "GET /hello from 0\n"},
      // Complete already, but nobody had looked at its sum.
      {"ranges", greetings(), "GET /hello from 13000\n"},
      // A part of something else.
      {"ranges", std::string(5000, 'x'), "GET /hello from 5000\nGET /hello from 0\n"},
      {"ranges", std::string(20000, 'x'), "GET /hello from 20000\nGET /hello from 0\n"},
  }));
  CAPTURE(ranges, begun.size());
  write_list(start_server(ranges));
  std::filesystem::create_directories(target_);
  std::ofstream(part()) << begun;
  const RunResult result = fetch();
  INFO(result.out << result.err << server_->output());
  CHECK(result.exit_code == 0);
  CHECK(content_of(file()) == greetings());
  CHECK_FALSE(std::filesystem::exists(part()));
  CHECK(server_->wait_for_output(requests, 20s).find(requests) != std::string::npos);
}

TEST_CASE_METHOD(FetchFixture, "what cannot be fetched is one line and no file", "[fetch]") {
  int exit_code = 69;
  std::string text;
  std::string name = "greetings";
  SECTION("another sum") {
    serve("goodbye\n");
    write_list(start_server());
    exit_code = 65;
    text = ", but " + std::string(kSum) + " is published";
  }
  SECTION("refused") {
    write_list("http://127.0.0.1:1 http://127.0.0.1:2");
    // The reason why each of them gave nothing.
    const bool first = GENERATE(true, false);
    text = first ? "http://127.0.0.1:1/hello: curl: (7) Failed to connect to 127.0.0.1 port 1 "
                 : "; http://127.0.0.1:2/hello: curl: (7) Failed to connect to 127.0.0.1 port 2 ";
  }
  SECTION("not there") {
    write_list(start_server());
    text = "error: 404";
  }
  SECTION("an unknown set") {
    write_list("http://127.0.0.1:1");
    name = "cats";
    exit_code = 64;
    text = "unknown data set 'cats'; there is: greetings, others";
  }
  SECTION("nowhere to write") {
    write_list("http://127.0.0.1:1");
    target_ = "/dev/null/set";
    exit_code = 73;
    text = "/dev/null/set: cannot be written";
  }
  const RunResult result = fetch(name);
  INFO(result.out << result.err);
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.err, Catch::Contains(text) && Catch::StartsWith("fetch-dataset: "));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK_FALSE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace hvdrun::test
