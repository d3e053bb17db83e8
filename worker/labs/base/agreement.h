// Ranks that fail must fail together: if one left alone, the others would only learn that it is
// gone, and every one of them would say so.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace hvdrun {

// The end of the run, decided by all ranks. The message is for stderr; it is empty on the ranks
// that leave the telling to another.
class Quit : public std::exception {
 public:
  Quit(int exit_code, std::string message) : exit_code_(exit_code), message_(std::move(message)) {}
  int exit_code() const { return exit_code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  int exit_code_;
  std::string message_;
};

// Collective. Throws Quit on every rank when any of them has an error; the first of those tells it.
void agree(const std::string& error, int exit_code);
// Collective. Throws Quit when `value` differs between ranks; rank 0 says "<what> differ ...".
void require_same(std::int64_t value, const std::string& what, int exit_code);
// As long as it lives these functions are no collectives: a process that is new in an elastic job
// prepares itself while the others train. agree() judges this rank alone, bytes stay as they are,
// and require_same() leaves its values to compare_later(). One at a time.
class AloneAtFirst {
 public:
  AloneAtFirst();
  ~AloneAtFirst();
  AloneAtFirst(const AloneAtFirst&) = delete;
  AloneAtFirst& operator=(const AloneAtFirst&) = delete;
};
bool is_alone();
// Collective, each time that the ranks have met: require_same() for all that was left to it.
void compare_later();

// Collective. The bytes of rank `root` on every rank.
void broadcast_bytes(std::string& bytes, int root = 0);

// Collective. The bytes of each rank on every rank.
std::vector<std::string> gather_bytes(const std::string& mine);

}  // namespace hvdrun
