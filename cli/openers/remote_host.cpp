#include "cli/openers/remote_host.h"

#include <utility>

#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxWords = 2;  // lines kept of what is said before it fails
constexpr std::size_t kMaxLine = 400;

}  // namespace

void RemoteHost::on_stdout(std::string_view bytes) {
  if (started()) return callbacks_.bytes(bytes);
  const RemoteStart::Stage before = remote_.stage();
  for (auto send = remote_.feed(bytes); send != RemoteStart::Send::nothing; send = remote_.feed({}))
    write(send == RemoteStart::Send::agent ? request_.agent->bytes : request_.job);
  if (remote_.stage() != before) callbacks_.stage();
}

void RemoteHost::on_stdout_end() {
  if (started() && !std::exchange(stdout_ended_, true)) callbacks_.bytes({});
}

void RemoteHost::on_stderr(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n' && c != '\r') {
      if (line_.size() < kMaxLine) line_ += c;
      continue;
    }
    if (line_.empty()) continue;
    std::string line = printable(std::exchange(line_, {}));
    if (!hear(line)) continue;
    if (started()) {
      callbacks_.line(line);
    } else {
      words_.push_back(std::move(line));
      if (words_.size() > kMaxWords) words_.pop_front();
    }
  }
}

std::string RemoteHost::last_words() const {
  std::string text;
  for (const std::string& line : words_) text += (text.empty() ? "" : "; ") + line;
  return text;
}

}  // namespace hvdrun
