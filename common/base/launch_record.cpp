#include "common/base/launch_record.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hvdrun {
namespace {

constexpr std::size_t kHashDigits = 8;

std::string hash_of(std::string_view value) {
  std::uint32_t hash = 2166136261U;
  for (const char c : value) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  std::string text(kHashDigits, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, hash >>= 4)
    *digit = "0123456789abcdef"[hash & 15U];
  return text;
}

// The items of a record, each without the blank that ends it.
std::vector<std::string_view> items_of(std::string_view record) {
  std::vector<std::string_view> items;
  while (!record.empty()) {
    const std::string_view item = record.substr(0, record.find(' '));
    record.remove_prefix(std::min(item.size() + 1, record.size()));
    if (!item.empty()) items.push_back(item);
  }
  return items;
}

}  // namespace

void add_to_record(std::string& record, std::string_view name, std::string_view value) {
  if (!record.empty()) record += ' ';
  record.append(name).append(":").append(hash_of(value));
}

void drop_recorded_variables(Environment& env) {
  const char* const found = find_variable(env, kLaunchRecord);
  if (found == nullptr) return;
  const std::string record = found;
  std::vector<std::string_view> items = items_of(record);
  std::sort(items.begin(), items.end());
  std::erase_if(env, [&](const std::string& entry) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos) return false;
    const std::string name = entry.substr(0, equals);
    if (name == kLaunchRecord) return true;
    const std::string item = name + ":" + hash_of(std::string_view(entry).substr(equals + 1));
    return std::binary_search(items.begin(), items.end(), item);
  });
}

}  // namespace hvdrun
