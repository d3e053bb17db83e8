// Where the ranks of a job on several hosts are reached, as hosts tell it to each other by the
// job's store. Each host says its own; the first one collects what all have said and says it again
// as one book, which every other host reads: requests grow with the hosts, not with their square.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The addresses of each host's ranks, in order: "address:port".
using AddressBook = std::vector<std::vector<std::string>>;

// The hosts' view of the store; the functions throw hvd::Error.
class BookStore {
 public:
  BookStore() = default;
  BookStore(const BookStore&) = delete;
  BookStore& operator=(const BookStore&) = delete;
  virtual ~BookStore() = default;

  virtual void put(const std::string& key, std::string value) = 0;
  // Waits for the key; nothing once the time for all of this is over. Not `patiently`: as it is.
  virtual std::optional<std::string> get(const std::string& key, bool patiently) = 0;
};

// Called on one rank of each host. `generation` tells one meeting of the job from the next.
// Throws Error(timeout) when a host does not come.
AddressBook exchange_addresses(BookStore& store, std::uint32_t generation, std::size_t host,
                               std::size_t hosts, const std::vector<std::string>& own);

// The book as text, in pieces of at most `limit` bytes: a line for each address, an empty one
// behind each host, and in front how many pieces there are.
std::vector<std::string> write_book(const AddressBook& book, std::size_t limit);
// The book out of all pieces, one behind the other.
AddressBook read_book(std::string_view text);

}  // namespace hvdrun
