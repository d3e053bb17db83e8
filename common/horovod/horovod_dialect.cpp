#include "common/horovod/horovod_dialect.h"

#include <utility>

namespace hvdrun {

int read_horovod_request(HttpRequest http, std::size_t longest, HorovodRequest& request) {
  if (http.method == "GET") {
    request.verb = HorovodVerb::get;
  } else if (http.method == "PUT") {
    request.verb = HorovodVerb::put;
  } else if (http.method == "DELETE") {
    request.verb = HorovodVerb::finish;
  } else {
    return 501;
  }
  // "/scope/key", both as they are: a colon, a per cent sign or a question mark is part of them.
  const std::string_view target = http.target;
  const auto slash = target.find('/', 1);
  if (!target.starts_with('/') || slash == std::string_view::npos || slash == 1 ||
      slash + 1 == target.size() || target.find('/', slash + 1) != std::string_view::npos)
    return 400;
  request.scope = target.substr(1, slash - 1);
  request.key = target.substr(slash + 1);
  if (request.scope.size() > longest || request.key.size() > longest) return 414;
  if (request.verb == HorovodVerb::put && !http.has_length) return 400;
  if (request.verb == HorovodVerb::put) request.value = std::move(http.body);
  return 0;
}

bool are_scope_and_key(std::string_view scope, std::string_view key, std::size_t longest) {
  const auto fits = [longest](std::string_view text) {
    return !text.empty() && text.size() <= longest && text.find('/') == std::string_view::npos;
  };
  return fits(scope) && fits(key);
}

}  // namespace hvdrun
