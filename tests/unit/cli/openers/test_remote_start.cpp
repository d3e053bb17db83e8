#include <vector>

#include "cli/openers/remote_start.h"
#include "cli/plan/launch_plan.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Send = RemoteStart::Send;
using Stage = RemoteStart::Stage;

// What is to be sent, in order, when the shell's words come in pieces of `size`.
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
  CHECK(inside.find('\'') == inside.size() - 1);
  CHECK(script.find_first_of("\n\\!") == std::string::npos);
  CHECK(script.find("head -c 5 ") != std::string::npos);
  CHECK_THROWS_AS(read_agent_image("/no/such/agent"), HostError);
  CHECK_THROWS_AS(read_agent_image("/dev/null"), HostError);
  CHECK_THROWS_AS(read_agent_image("/"), HostError);
}

}  // namespace
}  // namespace hvdrun
