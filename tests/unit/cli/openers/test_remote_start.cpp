#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/openers/remote_start.h"
#include "cli/text/user_errors.h"
#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"

namespace hvdrun {
namespace {

using Send = RemoteStart::Send;
using Stage = RemoteStart::Stage;

// The things to be sent, in order, when the shell's words come in pieces of `size`.
std::vector<Send> talk(RemoteStart& remote, std::string_view words, std::size_t size) {
  std::vector<Send> sent;
  for (std::size_t begin = 0; begin < words.size(); begin += size) {
    for (Send send = remote.feed(words.substr(begin, size)); send != Send::nothing;
         send = remote.feed({}))
      sent.push_back(send);
  }
  return sent;
}

TEST_CASE("the agent is sent when it is asked for, and then the job", "[remote start]") {
  for (std::size_t size = 1; size < 80; ++size) {
    CAPTURE(size);
    RemoteStart there;
    CHECK(talk(there, "Welcome!\nhvdrun: have\nhvdrun: start\n", size) ==
          std::vector<Send>{Send::job});
    CHECK(there.stage() == Stage::start);
    RemoteStart absent;
    CHECK(talk(absent, "hvdrun: need\r\nhvdrun: start\r\n", size) ==
          std::vector<Send>{Send::agent, Send::job});
    RemoteStart prompt;
    CHECK(talk(prompt, "$ hvdrun: need\nhvdrun: bad\nhvdrun: start\n", size) ==
          std::vector<Send>{Send::agent});
    CHECK(prompt.stage() == Stage::failed);
  }
}

TEST_CASE("a shell that says something else gets nothing", "[remote start]") {
  for (const char* const words :
       {"", "\n\n", "hvdrun: start\n", "hvdrun: have", "need\n", "hvdrun: needs\n"}) {
    CAPTURE(words);
    RemoteStart remote;
    CHECK(talk(remote, words, 7).empty());
    CHECK(remote.stage() == Stage::connect);
  }
  RemoteStart twice;
  CHECK(talk(twice, "hvdrun: need\nhvdrun: need\nhvdrun: start\nhvdrun: start\n", 100) ==
        std::vector<Send>{Send::agent, Send::job});
  RemoteStart endless;
  CHECK(talk(endless, std::string(100'000, 'x'), 1000).empty());
}

TEST_CASE("the script fits into single quotes of any shell", "[remote start]") {
  const AgentImage image{"agent", std::string(64, 'a')};
  const std::string script = remote_script(image);
  const std::string inside = script.substr(script.find('\'') + 1);
  const auto end = inside.find('\'');
  CHECK(inside.substr(end) == "' sh 5 " + image.sha256);
  CHECK(script.find_first_of("\n\\!#") == std::string::npos);
  // A word that is longer is too much for some shells.
  CHECK(end < 4000);
}

// Runs the script as the login shell of a user whose home is the folder. Returns what it says, and
// its exit code in a last line.
std::string log_in(const std::string& shell, const std::string& home, const std::string& script,
                   const std::string& input) {
  std::ofstream(home + "/input") << input;
  std::ofstream(home + "/command") << script;
  const std::string line = "cd " + home + " && env -u XDG_CACHE_HOME HOME=" + home +
                           " TMPDIR=" + home + " " + shell +
                           " -c \"$(cat command)\" <input 2>&1; echo $?";
  std::FILE* const said = ::popen(line.c_str(), "r");
  REQUIRE(said != nullptr);
  std::string text;
  for (int c = std::fgetc(said); c != EOF; c = std::fgetc(said)) text += static_cast<char>(c);
  ::pclose(said);
  return text;
}

TEST_CASE("the script takes the agent once, and starts no other", "[remote start]") {
  const std::string shell = GENERATE("sh", "bash", "dash", "csh", "tcsh", "fish", "zsh");
  if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) return;  // NOLINT
  CAPTURE(shell);
  test::TemporaryFolder folder;
  const std::string home = folder.path();
  std::ofstream(home + "/agent") << "#!/bin/sh\necho runs $*\n";
  const AgentImage image = read_agent_image(home + "/agent");
  const std::string script = remote_script(image);
  const std::string kept = home + "/.cache/hvdrun/agent-" + image.sha256.substr(0, 32);

  CHECK(log_in(shell, home, script, std::string(image.bytes.size(), 'x')) ==
        "hvdrun: need\nhvdrun: bad\nhvd-agent could not be stored in " + home +
            "/.cache/hvdrun (disk full, or no sha256sum)\n93\n");
  CHECK(log_in(shell, home, script, image.bytes + "the job") ==
        "hvdrun: need\nhvdrun: start\nruns guard\n0\n");
  CHECK(log_in(shell, home, script, "the job") == "hvdrun: have\nhvdrun: start\nruns guard\n0\n");
  std::ofstream(kept) << "#!/bin/sh\necho another\n";
  CHECK(log_in(shell, home, script, image.bytes) == "hvdrun: need\nhvdrun: start\nruns guard\n0\n");
  CHECK(read_agent_image(kept).sha256 == image.sha256);
  // Somebody else could put something there.
  std::filesystem::permissions(home + "/.cache", std::filesystem::perms::all);
  CHECK(log_in(shell, home, script, image.bytes) ==
        "hvdrun: need\nhvdrun: start\nruns guard temporary\n0\n");
}

TEST_CASE("an agent that cannot be read is an error", "[remote start]") {
  CHECK_THROWS_AS(read_agent_image("/no/such/agent"), HostError);
  CHECK_THROWS_AS(read_agent_image("/dev/null"), HostError);
  CHECK_THROWS_AS(read_agent_image("/"), HostError);
}

}  // namespace
}  // namespace hvdrun
