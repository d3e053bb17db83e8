#include "cli/hosts/offered_addresses.h"

#include <algorithm>

#include "cli/text/user_errors.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

std::string names_of(const std::vector<HostAddress>& all) {
  std::vector<std::string> names;
  for (const HostAddress& found : all)
    if (std::find(names.begin(), names.end(), found.interface) == names.end())
      names.push_back(found.interface);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

bool stays_here(const NetworkOptions& options, const std::string& loopback) {
  return options.advertise.empty() && !options.interfaces.empty() &&
         std::all_of(options.interfaces.begin(), options.interfaces.end(),
                     [&loopback](const std::string& name) { return name == loopback; });
}

std::vector<std::string> offered_addresses(const NetworkOptions& options,
                                           const std::vector<HostAddress>& all) {
  if (!options.advertise.empty()) return options.advertise;
  if (all.empty())
    throw HostError("this machine has no network address that another host could call back");
  std::vector<std::string> offered;
  for (const HostAddress& found : all)
    if (options.interfaces.empty() ||
        std::find(options.interfaces.begin(), options.interfaces.end(), found.interface) !=
            options.interfaces.end())
      offered.push_back(found.address);
  for (const std::string& name : options.interfaces)
    if (std::none_of(all.begin(), all.end(), [&](const auto& a) { return a.interface == name; }))
      throw UsageError("--network-interfaces " + quoted_word(name) +
                       ": no interface of this machine with an address that other hosts reach has "
                       "that name; there are " +
                       names_of(all));
  return offered;
}

}  // namespace hvdrun
