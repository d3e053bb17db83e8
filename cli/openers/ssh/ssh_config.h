// The settings that a connection to a host would be made with, as `ssh -G HOST` says. Sans-I/O.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class SshConfig {
 public:
  SshConfig() = default;
  // Lines "keyword value"; a keyword may come more than once.
  explicit SshConfig(std::string_view text);

  // The first value of a keyword (in lower case); empty when there is none.
  std::string_view value(std::string_view keyword) const;
  bool is_on(std::string_view keyword) const;  // "yes" or "true"
  // True where it has a value other than "none", "no" and "false".
  bool is_set(std::string_view keyword) const;
  std::vector<std::string> values(std::string_view keyword) const;
  // The first value cut at blanks, or at commas.
  std::vector<std::string> words(std::string_view keyword, char separator = ' ') const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

}  // namespace hvdrun
