#include "common/base/fault_text.h"

#include <boost/system/system_error.hpp>

#include "common/base/descriptor_limit.h"

namespace hvdrun {
std::string fault_text(const std::error_code& ec) { return ec.message() + descriptor_cure(ec); }

std::error_code code_of(const std::exception& fault) {
  if (const auto* const known = dynamic_cast<const std::system_error*>(&fault))
    return known->code();
  if (const auto* const boosts = dynamic_cast<const boost::system::system_error*>(&fault))
    return boosts->code();
  return {};
}

std::string fault_text(const std::exception& fault) {
  std::string text = fault.what();
  // Boost's own mark of the error, for programmers.
  if (const auto mark = text.find(" [system:"); mark != std::string::npos) text.resize(mark);
  return text + descriptor_cure(code_of(fault));
}

}  // namespace hvdrun
