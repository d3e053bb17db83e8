#include "common/fault_text.h"

#include <algorithm>
#include <sys/resource.h>

#include <boost/system/system_error.hpp>

namespace hvdrun {
namespace {

// Enough for a job of any size on one host.
constexpr rlim_t kEnoughFiles = 65536;

std::string number(rlim_t value) { return std::to_string(value); }

}  // namespace

std::string descriptor_cure(const std::error_code& ec) {
  if (ec == std::errc::too_many_files_open_in_system)
    return "; all processes of this machine together can have no more (sysctl fs.file-max)";
  rlimit limit{};
  if (ec != std::errc::too_many_files_open || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  if (limit.rlim_cur < limit.rlim_max)
    return "; the limit is " + number(limit.rlim_cur) + ": write ulimit -n " +
           number(std::min(limit.rlim_max, kEnoughFiles)) + " before";
  return "; the limit is " + number(limit.rlim_cur) +
         " (ulimit -Hn): raise it with nofile in /etc/security/limits.conf, LimitNOFILE= of a "
         "service, or docker run --ulimit nofile=" +
         number(kEnoughFiles);
}

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
