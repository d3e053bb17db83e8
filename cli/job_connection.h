// The way from a user's command to a job of theirs that runs on this machine (JobServer).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace hvdrun {

// The ids of this user's jobs, from the kernel's list of Unix sockets.
std::vector<std::string> running_jobs();
// The one whose id begins so; with nothing, the only one. Throws UsageError.
std::string find_job(const std::string& begin);

class JobConnection {
 public:
  explicit JobConnection(const std::string& job);

  // The job's answer; nothing: it has ended, or does not answer in time.
  template <class Answer, class Question>
  std::optional<Answer> ask(const Question& question) {
    if (!send(encode_frame(question))) return std::nullopt;
    const auto deadline = std::chrono::steady_clock::now() + kAnswerTimeout;
    while (const auto frame = receive(deadline)) {
      Answer answer;
      if (frame->type == Answer::kType && !decode(frame->payload, answer)) return answer;
      if (frame->type != MessageType::welcome) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  // For a driver to answer; the coordinator gives the hosts half a second itself.
  static constexpr std::chrono::milliseconds kAnswerTimeout{3'000};

  bool is_own() const;
  bool send(const std::string& bytes) const;
  std::optional<Frame> receive(std::chrono::steady_clock::time_point deadline);

  std::string job_;
  UniqueFd fd_;
  FrameDecoder decoder_;
};

}  // namespace hvdrun
