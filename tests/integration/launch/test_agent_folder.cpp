// Where hvd-agent lies on another host: in the user's own cache folder, or for a moment in a new
// one.
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <time.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

namespace fs = std::filesystem;

// Another host, as far as its shell is concerned: an ssh client that runs what it is to run there
// with a home and a folder for temporary files of its own.
class OtherHost {
 public:
  OtherHost() : home(folder_.path() + "/home"), temporary(folder_.path() + "/temporary") {
    fs::create_directory(home);
    fs::create_directory(temporary);
  }

  // `command` there as one rank; what it prints. `login`: what a shell does there first.
  std::string run(const std::string& command, const std::string& login = "") const {
    const std::string client = folder_.file(
        "client", "#!/bin/sh\nfor last; do :; done\nexport HOME='" + home + "' TMPDIR='" +
                      temporary + "'\nunset XDG_CACHE_HOME\n" + login + "\nexec sh -c \"$last\"\n");
    ::chmod(client.c_str(), 0755);
    const RunResult result = hvdrun(
        {"-np", "1", "-H", "other:1", "--ssh", client, "--tag-output", "off", "sh", "-c", command});
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    return result.out;
  }

 private:
  TempFolder folder_;  // before those that lie in it

 public:
  std::string home;
  std::string temporary;
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

struct stat status_of(const std::string& file) {
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  return info;
}

void make_old(const std::string& file, int days) {
  const timespec then{::time(nullptr) - 86'400L * days, 0};
  const timespec times[2] = {then, then};
  REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

TEST_CASE("an agent is kept in the user's own cache folder", "[agent folder]") {
  const OtherHost host;
  const std::string cache = host.home + "/.cache/hvdrun";
  host.run("true");
  const auto kept = names_in(cache);
  REQUIRE(kept.size() == 1);
  const std::string agent = cache + "/" + kept[0];
  const ino_t written = status_of(agent).st_ino;
  make_old(agent, 10);
  // It has no other name while it runs, and whoever uses it says so.
  CHECK(host.run("ls -A '" + cache + "'") == kept[0] + "\n");
  CHECK(names_in(cache) == kept);
  CHECK(status_of(agent).st_ino == written);
  CHECK(status_of(agent).st_mtime > ::time(nullptr) - 86'400);
  CHECK(names_in(host.temporary).empty());
}

TEST_CASE("agents that nobody has used for 30 days go with the next launch", "[agent folder]") {
  const OtherHost host;
  const std::string cache = host.home + "/.cache/hvdrun/";
  fs::create_directories(cache);
  fs::permissions(cache, fs::perms::owner_all);
  const std::string old_agent = "agent-" + std::string(32, '0');
  const std::string used_agent = "agent-" + std::string(32, '1');
  const std::vector<std::string> foreign = {"agent-notes", "agent-" + std::string(31, '2'),
                                            old_agent + "s", "old"};
  std::vector<std::string> stay = foreign;
  stay.push_back(used_agent);
  for (const std::string& name : stay) std::ofstream(cache + name) << "agent";
  std::ofstream(cache + old_agent) << "agent";
  for (const std::string& name : foreign) make_old(cache + name, 400);
  make_old(cache + old_agent, 31);
  make_old(cache + used_agent, 29);
  fs::create_directory(cache + "agent-" + std::string(32, '3'));
  make_old(cache + "agent-" + std::string(32, '3'), 400);
  host.run("true");
  CHECK_FALSE(fs::exists(cache + old_agent));
  for (const std::string& name : stay) {
    CAPTURE(name);
    CHECK(fs::exists(cache + name));
  }
  CHECK(fs::exists(cache + "agent-" + std::string(32, '3')));
  CHECK(names_in(cache).size() == stay.size() + 2);  // and its own
}

// As another launch does at any moment whose host has another clock, say.
TEST_CASE("an agent that is removed while a launch looks at it runs all the same",
          "[agent folder]") {
  const OtherHost host;
  const std::string cache = host.home + "/.cache/hvdrun";
  host.run("true");
  REQUIRE(names_in(cache).size() == 1);
  fs::create_directory(host.home + "/bin");
  const std::string tool = host.home + "/bin/sha256sum";
  std::ofstream(tool) << "#!/bin/sh\nPATH=${PATH#*:}\nsha256sum \"$@\"\nfound=$?\n"
                      << "rm " << cache << "/" << names_in(cache)[0] << " && : >'" << host.home
                      << "/removed'\nexit $found\n";
  fs::permissions(tool, fs::perms::owner_all);
  CHECK(host.run("echo ran", "PATH=$HOME/bin:$PATH") == "ran\n");
  CHECK(fs::exists(host.home + "/removed"));
  CHECK(names_in(cache).empty());
  CHECK(host.run("echo ran") == "ran\n");
}

// Others can change what the path of such a folder means after it has been looked at.
TEST_CASE("an agent is not stored where others could exchange it", "[agent folder]") {
  const std::string open = GENERATE("home", "cache", "hvdrun");
  CAPTURE(open);
  const OtherHost host;
  const std::string cache = host.home + "/.cache/hvdrun";
  fs::create_directories(cache);
  const std::string folder = open == "home"    ? host.home
                             : open == "cache" ? host.home + "/.cache"
                                               : cache;
  REQUIRE(::chmod(folder.c_str(), 01777) == 0);
  // As the rank runs, the folder in which the agent came is gone already.
  CHECK(host.run("ls -A '" + host.temporary + "'").empty());
  CHECK(names_in(cache).empty());
  CHECK(names_in(host.temporary).empty());
}

TEST_CASE("a folder for temporary files is new each time, whatever lies there", "[agent folder]") {
  OtherHost host;
  const std::string own = host.home + "/own";
  fs::create_directory(own);
  fs::create_directory_symlink(own, host.temporary + "/hvdrun-" + std::to_string(::getuid()));
  host.home = "/dev/null";
  host.run("true");
  CHECK(names_in(own).empty());
  CHECK(names_in(host.temporary).size() == 1);
}

// The mode that stores a program safely is not the one of its ranks' files.
TEST_CASE("ranks elsewhere have the umask of the login there", "[agent folder]") {
  OtherHost host;
  const std::string cache = host.home + "/.cache/hvdrun";
  CHECK(host.run("umask", "umask 026") == "0026\n");  // with an agent that was just sent
  CHECK(host.run("umask", "umask 002") == "0002\n");
  CHECK((fs::status(cache).permissions() & fs::perms::all) == fs::perms::owner_all);
  for (const std::string& name : names_in(cache))
    CHECK((fs::status(cache + "/" + name).permissions() & fs::perms::all) == fs::perms::owner_all);
  host.home = "/dev/null";
  CHECK(host.run("umask", "umask 026") == "0026\n");
}

}  // namespace
}  // namespace hvdrun::test
