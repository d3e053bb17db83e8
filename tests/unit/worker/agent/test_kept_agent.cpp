#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <time.h>

#include "tests/catch.h"
#include "worker/agent/kept_agent.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

const std::string kName = "agent-0123456789abcdef0123456789abcdef";
constexpr time_t kDay = 86'400;

// A cache folder, removed at the end.
struct AgentCache {
  AgentCache() {
    path = (fs::temp_directory_path() / "hvd-test-XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()) != nullptr);
  }
  ~AgentCache() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  AgentCache(const AgentCache&) = delete;
  AgentCache& operator=(const AgentCache&) = delete;

  std::string file(const std::string& name, int days) const {
    std::string made = path + "/" + name;
    std::ofstream(made) << name;
    set_age(made, days);
    return made;
  }
  static void set_age(const std::string& file, int days) {
    const timespec then{::time(nullptr) - kDay * days, 0};
    const timespec times[2] = {then, then};
    REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
  }
  static bool is_fresh(const std::string& file) {
    struct stat info {};
    REQUIRE(::stat(file.c_str(), &info) == 0);
    return info.st_mtime > ::time(nullptr) - kDay;
  }

  std::string path;
};

TEST_CASE("which programs are kept agents is told by their names", "[kept agent]") {
  CHECK(kept_agent("/c/hvdrun/" + kName) == "/c/hvdrun/" + kName);
  CHECK(kept_agent("/c/hvdrun/" + kName + ".gpu1.4711") == "/c/hvdrun/" + kName);
  for (const std::string& other :
       std::vector<std::string>{"", kName, "/c/hvd-agent", "/c/" + kName + ".", "/c/" + kName + "0",
                                "/c/" + kName.substr(1), "/c/" + kName.substr(0, 37),
                                "/c/agent-" + std::string(32, 'A'), "/" + kName + "/hvdrun"}) {
    CAPTURE(other);
    CHECK(kept_agent(other).empty());
  }
}

TEST_CASE("an agent that starts says that it is used, and removes old ones", "[kept agent]") {
  const AgentCache cache;
  const std::string own = cache.file(kName, 40);
  const std::string old_agent = cache.file("agent-" + std::string(32, 'a'), 31);
  const std::string used = cache.file("agent-" + std::string(32, 'b'), 29);
  const std::string foreign = cache.file("notes", 400);
  settle_agent(own);
  CHECK(AgentCache::is_fresh(own));
  CHECK_FALSE(fs::exists(old_agent));
  CHECK(fs::exists(used));
  CHECK(fs::exists(foreign));
}

TEST_CASE("what launches that were killed have left behind is removed", "[kept agent]") {
  const AgentCache cache;
  const std::string own = cache.file(kName, 0);
  // Told to be older than the file is.
  const std::string left = cache.file("agent-" + std::string(32, 'c') + ".gpu1.1", 400);
  remove_old_agents(own);
  CHECK(fs::exists(left));
  AgentCache::set_age(own, -31);  // so it is 31 days later
  remove_old_agents(own);
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(own));
}

// One that is started may have been forgotten for years: what looks at it now must find it used.
TEST_CASE("an agent that a launch has in hand is not removed", "[kept agent]") {
  const AgentCache cache;
  const std::string ancient = cache.file("agent-" + std::string(32, 'a'), 400);
  const std::string in_hand = ancient + ".gpu1.4711";
  REQUIRE(::link(ancient.c_str(), in_hand.c_str()) == 0);
  settle_agent(cache.file(kName, 0));
  CHECK_FALSE(fs::exists(ancient));
  REQUIRE(fs::exists(in_hand));
  settle_agent(in_hand);
  CHECK_FALSE(fs::exists(in_hand));
}

TEST_CASE("a name of a launch's own goes as its agent starts", "[kept agent]") {
  const AgentCache cache;
  const std::string kept = cache.file(kName, 400);
  const std::string in_hand = kept + ".gpu1.4711";
  REQUIRE(::link(kept.c_str(), in_hand.c_str()) == 0);
  settle_agent(in_hand);
  CHECK_FALSE(fs::exists(in_hand));
  CHECK(AgentCache::is_fresh(kept));
}

TEST_CASE("a program that is no kept agent touches nothing", "[kept agent]") {
  const AgentCache cache;
  const std::string own = cache.file("hvd-agent", 40);
  const std::string old_agent = cache.file("agent-" + std::string(32, 'a'), 400);
  settle_agent(own);
  CHECK(fs::exists(old_agent));
  CHECK_FALSE(AgentCache::is_fresh(own));
}

TEST_CASE("a running agent is touched every now and then", "[kept agent]") {
  const AgentCache cache;
  const std::string own = cache.file(kName, 40);
  const AgentTouch::Clock::time_point start{};
  AgentTouch touch(own, 24h, start);
  CHECK(touch.timeout(start) == 86'400'000);
  touch.tick(start + 24h - 1ms);
  CHECK(touch.timeout(start + 24h - 1ms) == 1);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // nobody was started
  CHECK(touch.timeout(start + 25h) == 0);
  for (const auto day : {25h, 49h}) {
    AgentCache::set_age(own, 3);
    touch.tick(start + day);
    siginfo_t info{};
    REQUIRE(::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0);
    CHECK(AgentCache::is_fresh(own));
    // Not a day from now: the zombie would keep the PID namespace of the agent.
    CHECK(touch.timeout(start + day) == 1'000);
    touch.tick(start + day + 1s);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(touch.timeout(start + day + 1s) == 86'399'000);
  }
  AgentTouch never({}, 24h, start);
  CHECK(never.timeout(start) == -1);
  never.tick(start + 100h);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

}  // namespace
}  // namespace hvdrun
