#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "tests/catch.h"
#include "worker/hvd/api/address_book.h"

namespace hvdrun {
namespace {

// The job's store, shared by threads that are hosts. Counts what is asked.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::size_t requests = 0;
  bool over = false;  // the time of those who wait
};

class FakeStore final : public BookStore {
 public:
  explicit FakeStore(Shared& shared) : shared_(shared) {}
  void put(const std::string& key, std::string value) override {
    const std::lock_guard lock(shared_.mutex);
    ++shared_.requests;
    shared_.values[key] = std::move(value);
    shared_.changed.notify_all();
  }
  std::optional<std::string> get(const std::string& key, bool patiently) override {
    std::unique_lock lock(shared_.mutex);
    ++shared_.requests;
    if (patiently)
      shared_.changed.wait(lock, [&] { return shared_.over || shared_.values.count(key) != 0; });
    const auto found = shared_.values.find(key);
    if (found == shared_.values.end()) return std::nullopt;
    return found->second;
  }

 private:
  Shared& shared_;
};

std::vector<std::string> addresses_of(std::size_t host) {
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank <= host % 3; ++rank)
    all.push_back("[fe80::" + std::to_string(host) + "%eth0]:" + std::to_string(1000 + rank));
  return all;
}

// The book that each host found, or the error; `missing` never comes.
std::vector<std::string> exchange_books(Shared& shared, std::size_t hosts, std::size_t missing) {
  AddressBook all;
  for (std::size_t host = 0; host < hosts; ++host) all.push_back(addresses_of(host));
  std::vector<std::string> found(hosts);
  std::vector<std::thread> threads;
  for (std::size_t host = 0; host < hosts; ++host) {
    if (host == missing) continue;
    threads.emplace_back([&, host] {
      FakeStore store(shared);
      try {
        found[host] = exchange_addresses(store, 7, host, hosts, addresses_of(host)) == all
                          ? "all"
                          : "something else";
      } catch (const hvd::Error& error) {
        found[host] = error.what();
      }
    });
  }
  if (missing < hosts) {
    // Everybody else has said its own: nobody waits for a time.
    std::unique_lock lock(shared.mutex);
    shared.changed.wait(lock, [&] { return shared.values.size() == hosts - 1; });
    shared.over = true;
    shared.changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

TEST_CASE("hosts find each other with a few requests each", "[addresses]") {
  constexpr std::size_t kHosts = 60;
  Shared shared;
  for (const std::string& found : exchange_books(shared, kHosts, kHosts)) CHECK(found == "all");
  // Each puts its own and reads the book; the first reads the others' and puts the book.
  CHECK(shared.requests == 3 * kHosts - 1);
}

TEST_CASE("a host that does not come is named", "[addresses]") {
  {
    Shared shared;
    const auto found = exchange_books(shared, 4, 2);
    CHECK(found[0] == "not all ranks of host 2 of 4 (counted from 0) arrived in time");
    CHECK(found[1] == "not all ranks of the 4 hosts arrived in time");
  }
  Shared shared;
  const auto found = exchange_books(shared, 4, 0);
  CHECK(found[3] == "not all ranks of host 0 of 4 (counted from 0) arrived in time");
}

TEST_CASE("a book comes in pieces where it is too long for a value", "[addresses]") {
  AddressBook book;
  for (std::size_t host = 0; host < 40; ++host) book.push_back(addresses_of(host));
  const auto pieces = write_book(book, 200);
  CHECK(pieces.size() > 5);
  std::string text;
  for (const std::string& piece : pieces) {
    CHECK(piece.size() <= 200);
    text += piece;
  }
  const std::size_t line = text.find('\n');
  CHECK(text.substr(0, line) == std::to_string(pieces.size()));
  CHECK(read_book(std::string_view(text).substr(line + 1)) == book);
  CHECK(write_book({}, 200) == std::vector<std::string>{"1\n"});
}

}  // namespace
}  // namespace hvdrun
