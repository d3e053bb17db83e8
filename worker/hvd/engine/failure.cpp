#include "worker/hvd/engine/failure.h"

#include <cstddef>
#include <string>

namespace hvdrun {

hvd::Error named_error(const Operation& operation, const hvd::Error& error) {
  std::string text = error.what();
  // The communicator calls it by what runs: "allgather(int64, 3 elements in all): ...".
  const std::size_t end = text.find("): ");
  if (!operation.description.empty() && end != text.npos &&
      text.starts_with(name_of(operation.kind) + std::string("(")))
    text.replace(0, end + 1, operation.description);
  if (!operation.name.empty()) text.insert(0, "'" + operation.name + "': ");
  return {error.code(), text};
}

std::shared_ptr<const hvd::Error> failure_of(const hvd::Error& error) {
  return std::make_shared<const hvd::Error>(error.code(), error.what());
}

void throw_copy(const hvd::Error& error) { throw hvd::Error(error.code(), error.what()); }

}  // namespace hvdrun
