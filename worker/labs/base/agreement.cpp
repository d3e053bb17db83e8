#include "worker/labs/base/agreement.h"

#include <algorithm>
#include <utility>

#include <hvd/hvd.h>

namespace hvdrun {
namespace {

struct Left {
  std::int64_t value;
  std::string what;
  int exit_code;
};

bool g_alone = false;
std::vector<Left> g_left;

std::vector<std::int64_t> gather(std::int64_t value) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(hvd::size()));
  hvd::allgather(&value, all.data(), 1);
  return all;
}

}  // namespace

AloneAtFirst::AloneAtFirst() { g_alone = true; }

AloneAtFirst::~AloneAtFirst() { g_alone = false; }

bool is_alone() { return g_alone; }

void compare_later() {
  for (const Left& one : g_left) require_same(one.value, one.what, one.exit_code);
}

void agree(const std::string& error, int exit_code) {
  if (g_alone) {
    if (!error.empty()) throw Quit(exit_code, error);
    return;
  }
  const auto codes = gather(error.empty() ? 0 : exit_code);
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] == 0) continue;
    const bool mine = static_cast<int>(rank) == hvd::rank();
    throw Quit(static_cast<int>(codes[rank]), mine ? error : std::string());
  }
}

void require_same(std::int64_t value, const std::string& what, int exit_code) {
  if (g_alone) return g_left.push_back({value, what, exit_code});
  const auto values = gather(value);
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    if (values[rank] == values[0]) continue;
    throw Quit(exit_code, hvd::rank() == 0
                              ? what + " differ between rank 0 and rank " + std::to_string(rank)
                              : std::string());
  }
}

void broadcast_bytes(std::string& bytes, int root) {
  if (g_alone) return;
  auto size = static_cast<std::int64_t>(bytes.size());
  hvd::broadcast(&size, 1, root);
  // There is no collective on bytes.
  std::vector<std::int64_t> words((static_cast<std::size_t>(size) + 7) / 8);
  if (hvd::rank() == root) bytes.copy(reinterpret_cast<char*>(words.data()), bytes.size());
  if (!words.empty()) hvd::broadcast(words.data(), words.size(), root);
  bytes.assign(reinterpret_cast<const char*>(words.data()), static_cast<std::size_t>(size));
}

std::vector<std::string> gather_bytes(const std::string& mine) {
  if (g_alone) return {mine};
  const std::vector<std::int64_t> sizes = gather(static_cast<std::int64_t>(mine.size()));
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::int64_t> words((longest + 7) / 8);
  std::vector<std::string> all(sizes.size());
  if (words.empty()) return all;
  mine.copy(reinterpret_cast<char*>(words.data()), mine.size());
  std::vector<std::int64_t> gathered(words.size() * sizes.size());
  hvd::allgather(words.data(), gathered.data(), words.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    all[rank].assign(reinterpret_cast<const char*>(gathered.data() + rank * words.size()),
                     static_cast<std::size_t>(sizes[rank]));
  return all;
}

}  // namespace hvdrun
