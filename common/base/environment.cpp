#include "common/base/environment.h"

#include <algorithm>

extern char** environ;

namespace hvdrun {
namespace {

bool has_name(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

}  // namespace

Environment own_environment() {
  Environment env;
  for (char** entry = environ; *entry != nullptr; ++entry) env.emplace_back(*entry);
  return env;
}

const char* find_variable(const Environment& env, std::string_view name) {
  for (const std::string& entry : env)
    if (has_name(entry, name)) return entry.c_str() + name.size() + 1;
  return nullptr;
}

void set_variable(Environment& env, std::string_view name, std::string_view value) {
  std::string entry = std::string(name) + "=" + std::string(value);
  for (std::string& old : env) {
    if (!has_name(old, name)) continue;
    old = std::move(entry);
    return;
  }
  env.push_back(std::move(entry));
}

void erase_variable(Environment& env, std::string_view name) {
  std::erase_if(env, [name](const std::string& entry) { return has_name(entry, name); });
}

void set_variables(Environment& env, const Environment& others) {
  for (const std::string& entry : others) {
    const auto equals = std::min(entry.find('='), entry.size());
    set_variable(env, entry.substr(0, equals), entry.substr(std::min(equals + 1, entry.size())));
  }
}

}  // namespace hvdrun
