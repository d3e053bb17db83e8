#include <string>
#include <vector>

#include "cli/hosts/host_source.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

const HostSource kScript{HostSource::Kind::script, "./hosts.sh", "--host-discovery-script", {}};
const HostSource kFile{HostSource::Kind::hostfile, "hosts", "--hostfile", {}};

HostListing listing(const std::string& text, const HostSource& source = kScript) {
  return read_listing(source, text);
}

std::string words(const std::vector<HostEntry>& hosts) {
  std::string text;
  for (const HostEntry& host : hosts)
    text += (text.empty() ? "" : " ") + host.name + ":" + std::to_string(host.slots);
  return text;
}

HostListing of(const std::string& text) { return listing(text); }

TEST_CASE("Slurm lists the nodes of an allocation in one line", "[discovery]") {
  const HostSource slurm{
      HostSource::Kind::slurm, "4711", "Slurm allocation", {}, {{"n1", 4}, {"n2", 2}}};
  CHECK(command_of(slurm) ==
        std::vector<std::string>{"squeue", "--noheader", "--jobs", "4711", "--format", "%N"});
  CHECK(words(listing("n[1-2]\n", slurm).hosts) == "n1:4 n2:2");
  CHECK(words(listing("n1,gpu3\n", slurm).hosts) == "n1:4 gpu3:1");
  // A job that has ended has none; nor has an error's text.
  CHECK(listing("\n", slurm).fault == "lists no host");
  CHECK(listing("", slurm).fault == "lists no host");
  CHECK(listing("n[1-\n", slurm).fault.find("has the nodes 'n[1-', which are no hosts: ") == 0);
}

TEST_CASE("a script lists hosts, a line each", "[discovery]") {
  for (const auto& [text, hosts] : std::vector<std::pair<std::string, std::string>>{
           {"a:2\nb:1\n", "a:2 b:1"},
           {"a:2\r\n\r\nb:1", "a:2 b:1"},
           {"# pods\n  a:2  # idle\n\n", "a:2"},
           {"a", "a:1"},
           {"node[1-3]:4\n", "node1:4 node2:4 node3:4"},
           {"me@a:22:4\n", "a:4"},
           {"[fd00::1]:2\n", "fd00::1:2"},
       }) {
    CAPTURE(text);
    const HostListing read = listing(text);
    CHECK(read.fault.empty());
    CHECK(read.remarks.empty());
    CHECK(words(read.hosts) == hosts);
  }
  CHECK(words(read_listing({HostSource::Kind::script, "s", "w", 3}, "a\nb:1\n").hosts) ==
        "a:3 b:1");
}

TEST_CASE("what a script should not print is named, and nothing of it is used", "[discovery]") {
  for (const auto& [text, fault] : std::vector<std::pair<std::string, std::string>>{
           {"", "lists no host"},
           {"\n# none\n", "lists no host"},
           {"a:x\n", "lists 'a:x', which is no host: "},
           {"a:-1\n", "lists 'a:-1', which is no host: "},
           {"a:2\nno pods found\n", "lists 'no pods found', which is no host: "},
           {std::string("\x7f\x45\x4c\x46\x02\x01\x00", 7), "lists '"},
           {"a;reboot:2\n", "lists 'a;reboot:2', which is no host: "},
       }) {
    CAPTURE(text);
    CHECK(listing(text).fault.starts_with(fault));
  }
  // A mebibyte of it makes no long line.
  CHECK(listing(std::string(1U << 20U, 'x')).fault.size() < 500);
}

TEST_CASE("a host that stands twice in a script's list counts once", "[discovery]") {
  const HostListing read = listing("a:2\na:4\nme@a:1\n");
  CHECK(words(read.hosts) == "a:2 a:1");
  CHECK(read.remarks == std::vector<std::string>{"lists a more than once; its first line counts"});
}

TEST_CASE("a hostfile is read as ever", "[discovery]") {
  CHECK(words(listing("a slots=2\nb:3 # here\n", kFile).hosts) == "a:2 b:3");
  CHECK(listing("a slots=2\nb slots=x\n", kFile).fault.starts_with("line 2: "));
}

TEST_CASE("a source that fails keeps its hosts, and each fault is told once", "[discovery]") {
  HostLister lister(of("a:2").hosts, false);
  CHECK_FALSE(lister.take(of("a:2\n")));
  CHECK_FALSE(lister.take(of("")));
  CHECK(lister.take_news() ==
        std::vector<std::string>{"lists no host; the hosts stay as they are"});
  CHECK_FALSE(lister.take(of("")));
  CHECK(lister.take_news().empty());
  HostListing failed;
  failed.fault = "exited with code 1";
  CHECK_FALSE(lister.take(failed));
  CHECK(lister.take_news().size() == 1);
  // The order of its lines may be another one each time.
  HostLister both(of("a:2\nb:1").hosts, false);
  CHECK_FALSE(both.take(of("b:1\na:2")));
  const auto changed = lister.take(of("b:1\na:2"));
  REQUIRE(changed);
  CHECK(words(*changed) == "b:1 a:2");
  CHECK_FALSE(lister.take(of("b:1\na:2")));
  CHECK(lister.take_news().empty());
  // Nor does one that fails in another way each time fill the terminal.
  std::size_t told = 0;
  for (int i = 0; i < 100; ++i) {
    failed.fault = "exited with code " + std::to_string(i);
    lister.take(failed);
    told += lister.take_news().size();
  }
  CHECK(told < 20);
}

TEST_CASE("a file counts when it has been read twice", "[discovery]") {
  HostLister lister(listing("a:2", kFile).hosts, true);
  CHECK_FALSE(lister.take(listing("a:2\nb:1", kFile)));
  CHECK_FALSE(lister.take(listing("a:2\nb:12", kFile)));
  CHECK_FALSE(lister.take(listing("", kFile)));
  CHECK_FALSE(lister.take(listing("a:2\nb:12", kFile)));
  const auto changed = lister.take(listing("a:2\nb:12", kFile));
  REQUIRE(changed);
  CHECK(words(*changed) == "a:2 b:12");
}

}  // namespace
}  // namespace hvdrun
