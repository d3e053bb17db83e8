// A member of a Horovod job as far as the rendezvous goes: what Horovod's library does with Gloo in
// init and shutdown, its HTTP client's manners included. It learns all it needs from HOROVOD_*.
//
//   horovod_client member [ROUNDS] [rude]   joins ROUNDS times; rude: with clients that vanish
//   horovod_client stall          joins once; then all wait for the last rank, which reads a pipe
//   horovod_client crowd HOSTS SLOTS SECONDS   all members of such a job; the other ranks wait
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <netinet/in.h>
#include <optional>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <ifaddrs.h>

#include "common/base/unique_fd.h"
#include "tests/integration/programs/horovod_crowd.h"
#include "tests/integration/programs/many_requests.h"

namespace hvdrun::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTries = 3;
constexpr useconds_t kRetryPause = 500'000;
constexpr useconds_t kPollPause = 10'000;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr || *value == '\0') throw std::runtime_error(std::string(name) + " is unset");
  return value;
}

std::uint32_t number(const char* name) {
  return static_cast<std::uint32_t>(std::stoul(variable(name)));
}

void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what + ": " + std::strerror(errno));  // NOLINT
}

sockaddr_in address_of(const std::string& ip, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  check(::inet_pton(AF_INET, ip.c_str(), &address.sin_addr) == 1, ip);
  return address;
}

// As Gloo does with HOROVOD_GLOO_IFACE.
sockaddr_in interface_address(const std::string& name) {
  ifaddrs* list = nullptr;
  check(::getifaddrs(&list) == 0, "getifaddrs");
  std::optional<sockaddr_in> found;
  for (const ifaddrs* entry = list; entry != nullptr && !found; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
        name == entry->ifa_name)
      found = *reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
  ::freeifaddrs(list);
  if (!found) throw std::runtime_error("no address on " + name);
  found->sin_port = 0;
  return *found;
}

UniqueFd connect_to(const sockaddr_in& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  check(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
        "connect");
  return fd;
}

void send_all(const UniqueFd& fd, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t done = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    check(done > 0, "send");
    sent += static_cast<std::size_t>(done);
  }
}

// Up to `size` bytes; fewer at the end of the stream. Peers are waited for as Gloo does.
std::string receive(const UniqueFd& fd, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    const ssize_t more = ::recv(fd.get(), bytes.data() + got, size - got, 0);
    check(more >= 0, "recv");
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  bytes.resize(got);
  return bytes;
}

struct Counts {
  std::size_t requests = 0;
  std::size_t retries = 0;
};

class HttpStore {
 public:
  HttpStore(std::string scope, Counts& counts)
      : scope_(std::move(scope)),
        ip_(variable("HOROVOD_GLOO_RENDEZVOUS_ADDR")),
        server_(
            address_of(ip_, static_cast<std::uint16_t>(number("HOROVOD_GLOO_RENDEZVOUS_PORT")))),
        counts_(counts) {}

  void put(const std::string& key, const std::string& value) {
    if (!ask("PUT", key, value)) throw std::runtime_error("PUT " + key + ": not found");
  }
  std::optional<std::string> get(const std::string& key) { return ask("GET", key, {}); }
  void finish(const std::string& key) {
    if (!ask("DELETE", key, {})) throw std::runtime_error("DELETE " + key + ": not found");
  }
  std::string wait(const std::string& key, std::chrono::seconds limit) {
    const auto end = Clock::now() + limit;
    while (!get(key)) {
      if (Clock::now() > end) {
        // Gloo's exception, which Horovod does not catch.
        std::fprintf(stderr,
                     "  what():  [horovod/common/gloo/http_store.cc:57] Wait timeout after %lld "
                     "seconds for key(s): %s.\n",
                     static_cast<long long>(limit.count()), key.c_str());
        std::abort();
      }
      ::usleep(kPollPause);
    }
    return get(key).value();
  }

  // Clients that vanish: one says nothing, one half a request, one resets in the middle. The first
  // two stay open until the end.
  void be_rude() {
    open_.push_back(connect_to(server_));
    open_.push_back(connect_to(server_));
    send_all(open_.back(), "GET /" + scope_ + "/0 HT");
    const UniqueFd reset = connect_to(server_);
    send_all(reset, "PUT /" + scope_ + "/0 HTTP/1.1\r\nContent-Length: 1000\r\n\r\nhalf");
    const linger now{1, 0};
    ::setsockopt(reset.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

 private:
  std::optional<std::string> ask(const std::string& method, const std::string& key,
                                 const std::string& value) {
    for (int i = 0; i < kTries; ++i) {
      ++counts_.requests;
      int status = 0;
      std::string body;
      try {
        status = ask_once(method, key, value, body);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
      }
      if (status == 200) return body;
      if (status == 404) return std::nullopt;
      std::fprintf(stderr, "HTTP response not OK, got %d\n", status);
      ++counts_.retries;
      ::usleep(kRetryPause);
    }
    throw std::runtime_error("HTTP request failed");
  }

  int ask_once(const std::string& method, const std::string& key, const std::string& value,
               std::string& body) {
    const UniqueFd fd = connect_to(server_);
    send_all(fd, http_request(method, "/" + scope_ + "/" + key, ip_, value));
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos) {
      const std::string byte = receive(fd, 1);
      check(!byte.empty(), "closed without an answer");
      head += byte;
    }
    const std::string name = "\r\nContent-Length: ";
    const auto at = head.find(name);
    check(at != std::string::npos, "no Content-Length");
    const std::size_t length = std::stoul(head.substr(at + name.size()));
    body = receive(fd, length);
    check(body.size() == length, "a short answer");
    return std::stoi(head.substr(head.find(' ')));
  }

  std::string scope_;
  std::string ip_;
  sockaddr_in server_;
  Counts& counts_;
  std::vector<UniqueFd> open_;
};

// A full mesh among the members of one context, as Gloo makes it.
class Mesh {
 public:
  Mesh(HttpStore& store, std::uint32_t rank, std::uint32_t size)
      : rank_(rank), size_(size), peers_(size) {
    store.put("rank_" + std::to_string(rank), "host of " + std::to_string(rank));
    for (std::uint32_t i = 0; i < rank; ++i) {
      const auto name = store.get("rank_" + std::to_string(i));  // there or not
      if (name && *name != "host of " + std::to_string(i))
        throw std::runtime_error("name: " + *name);
    }
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own = interface_address(variable("HOROVOD_GLOO_IFACE"));
    socklen_t length = sizeof own;
    check(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&own), length) == 0, "bind");
    check(::listen(listener.get(), static_cast<int>(size)) == 0, "listen");
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &length);
    std::string addresses;
    for (std::uint32_t i = 0; i < size; ++i)
      if (i != rank) addresses += record(own, i);
    store.put(std::to_string(rank), addresses);  // empty when there is nobody else
    const char* const set = std::getenv("HOROVOD_GLOO_TIMEOUT_SECONDS");  // NOLINT
    const std::chrono::seconds limit(set != nullptr ? std::stoi(set) : 30);
    for (std::uint32_t i = 0; i < size; ++i) {
      if (i == rank) continue;
      const std::string value = store.wait(std::to_string(i), limit);
      if (value.size() != kRecord * (size - 1)) throw std::runtime_error("a value of wrong size");
      if (i > rank) continue;
      const std::size_t mine = rank - 1;  // its list leaves out its own
      sockaddr_in address{};
      std::memcpy(&address, value.data() + mine * kRecord, sizeof address);
      peers_[i] = connect_to(address);
      send_all(peers_[i],
               value.substr(mine * kRecord + sizeof(sockaddr_storage), sizeof(std::int64_t)));
      send_all(peers_[i], std::string(reinterpret_cast<const char*>(&rank_), sizeof rank_));
    }
    accept_rest(listener);
    barrier();
    store.finish(std::to_string(rank));
  }

  void barrier() {
    for (std::uint32_t i = 0; i < size_; ++i)
      if (i != rank_) send_all(peers_[i], "b");
    for (std::uint32_t i = 0; i < size_; ++i)
      if (i != rank_ && receive(peers_[i], 1) != "b") throw std::runtime_error("a peer is gone");
  }

 private:
  static constexpr std::size_t kRecord = sizeof(sockaddr_storage) + sizeof(std::int64_t);

  // An address and the number that tells the pair: here the peer it is meant for.
  static std::string record(const sockaddr_in& own, std::uint32_t peer) {
    std::string bytes(kRecord, '\0');
    std::memcpy(bytes.data(), &own, sizeof own);
    const std::int64_t sequence = peer;
    std::memcpy(bytes.data() + sizeof(sockaddr_storage), &sequence, sizeof sequence);
    return bytes;
  }

  // Those above connect to us, each with the number that we gave it and its rank.
  void accept_rest(const UniqueFd& listener) {
    for (std::uint32_t left = size_ - rank_ - 1; left > 0; --left) {
      UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      check(static_cast<bool>(fd), "accept");
      std::int64_t sequence = 0;
      std::memcpy(&sequence, receive(fd, sizeof sequence).data(), sizeof sequence);
      const auto rank = static_cast<std::uint32_t>(sequence);
      if (rank <= rank_ || rank >= size_ || peers_[rank])
        throw std::runtime_error("a peer that is not expected");
      std::uint32_t told = 0;
      std::memcpy(&told, receive(fd, sizeof told).data(), sizeof told);
      if (told != rank) throw std::runtime_error("a peer that took another's address");
      peers_[rank] = std::move(fd);
    }
  }

  std::uint32_t rank_;
  std::uint32_t size_;
  std::vector<UniqueFd> peers_;
};

void run_member(int rounds, bool rude) {
  const std::uint32_t rank = number("HOROVOD_RANK");
  const std::uint32_t size = number("HOROVOD_SIZE");
  if (variable("HOROVOD_CONTROLLER") != "gloo" || variable("HOROVOD_CPU_OPERATIONS") != "gloo")
    throw std::runtime_error("the controller is not Gloo");
  Counts counts;
  for (int round = 0; round < rounds; ++round) {
    HttpStore global_store("global", counts);
    if (rude) global_store.be_rude();
    Mesh global(global_store, rank, size);
    HttpStore local_store("local_" + variable("HOROVOD_HOSTNAME"), counts);
    const Mesh local(local_store, number("HOROVOD_LOCAL_RANK"), number("HOROVOD_LOCAL_SIZE"));
    HttpStore cross_store("cross_" + variable("HOROVOD_LOCAL_RANK"), counts);
    if (rude) cross_store.be_rude();
    const Mesh cross(cross_store, number("HOROVOD_CROSS_RANK"), number("HOROVOD_CROSS_SIZE"));
    // Process sets have scopes that nobody announced.
    HttpStore set_store("global_process_set_hash_" + std::to_string(round), counts);
    const Mesh set(set_store, rank, size);
    // Shutdown is agreed on by all before anybody leaves.
    global.barrier();
  }
  std::printf("member %u of %u: %d rounds, %zu retries\n", rank, size, rounds, counts.retries);
}

void run_stall() {
  const std::uint32_t size = number("HOROVOD_SIZE");
  Counts counts;
  HttpStore store("global", counts);
  Mesh global(store, number("HOROVOD_RANK"), size);
  std::printf("met in %s.\n", variable("HVD_JOB_ID").c_str());
  std::fflush(stdout);
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  char byte = 0;
  if (number("HOROVOD_RANK") + 1 == size) check(::read(ends[0], &byte, 1) == 1, "read");
  // Horovod's own thread has the collective; the program's looks for its end without a pause.
  std::atomic<bool> done = false;
  std::thread collective([&] {
    global.barrier();
    done = true;
  });
  while (!done) ::sched_yield();
  collective.join();
}

// Whoever leaves while others are still to meet ends the job, so the ranks that rank 0 plays stay
// until it ends: by the end of a connection to a socket that goes with it.
sockaddr_un end_address(socklen_t& length) {
  const std::string name = "hvd-crowd-" + variable("HVD_JOB_ID");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: it has no file
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UniqueFd announce_end() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = end_address(length);
  check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0, "bind");
  check(::listen(fd.get(), static_cast<int>(number("HOROVOD_SIZE"))) == 0, "listen");
  return fd;
}

int wait_for_crowd() {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = end_address(length);
  for (int i = 0; ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0;
       ++i) {
    if (i == 1000) throw std::runtime_error("no rank 0");
    ::usleep(kPollPause);
  }
  // Nobody accepts: rank 0's end is a reset.
  char byte = 0;
  (void)::recv(fd.get(), &byte, 1, 0);
  return 0;
}

int run(const std::vector<std::string>& args) {
  if (args.size() >= 1 && args[0] == "member") {
    run_member(args.size() > 1 ? std::stoi(args[1]) : 1, args.size() > 2 && args[2] == "rude");
    return 0;
  }
  if (args.size() == 1 && args[0] == "stall") {
    run_stall();
    return 0;
  }
  if (args.size() == 4 && args[0] == "crowd") {
    if (number("HOROVOD_RANK") != 0) return wait_for_crowd();
    const UniqueFd end = announce_end();
    CrowdOptions options;
    options.address = variable("HOROVOD_GLOO_RENDEZVOUS_ADDR");
    options.port = static_cast<std::uint16_t>(number("HOROVOD_GLOO_RENDEZVOUS_PORT"));
    options.hosts = static_cast<std::uint32_t>(std::stoul(args[1]));
    options.slots = static_cast<std::uint32_t>(std::stoul(args[2]));
    options.limit = std::chrono::seconds(std::stoi(args[3]));
    return run_crowd(options) ? 0 : 1;
  }
  std::fputs("usage: horovod_client member [ROUNDS] [rude] | stall | crowd HOSTS SLOTS SECONDS\n",
             stderr);
  return 64;
}

}  // namespace
}  // namespace hvdrun::test

int main(int argc, char** argv) {
  try {
    return hvdrun::test::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "horovod_client: %s\n", e.what());
    return 1;
  }
}
