#include "worker/labs/base/start_place.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace hvdrun {
namespace {

int number_of(const char* name, int otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return otherwise;
  int value = otherwise;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

StartPlace start_place() {
  const char* const job = std::getenv("HVD_JOB_ID");  // NOLINT(concurrency-mt-unsafe)
  return {number_of("HVD_RANK", 0),
          number_of("HVD_SIZE", 1),
          number_of("HVD_LOCAL_SIZE", 1),
          std::getenv("HVD_LATE") != nullptr,  // NOLINT(concurrency-mt-unsafe)
          number_of("HVD_RESTART_COUNT", 0) > 0,
          job == nullptr || number_of("HVD_MAX_RESTARTS", 0) == 0 ? "" : job};
}

}  // namespace hvdrun
