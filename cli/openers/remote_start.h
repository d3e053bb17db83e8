// The dialogue with a shell on another host until hvd-agent runs there: whether it has this very
// agent, the agent itself, then the job. The agent stays in the user's cache there, under the name
// of its hash. Where there is no cache it is in /tmp until it runs. Sans-I/O.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hvdrun {

// An agent program and its name.
struct AgentImage {
  std::string bytes;
  std::string sha256;  // 64 hexadecimal digits
};

// Throws HostError when the file cannot be read.
AgentImage read_agent_image(const std::string& path);

// The text of start_agent.sh for the login shell of the user there, whichever it is: one command of
// sh, without a secret.
std::string remote_script(const AgentImage& image);

class RemoteStart {
 public:
  enum class Stage { connect, deploy, start, failed };
  // Bytes that go to the shell's stdin now.
  enum class Send { nothing, agent, job };

  // Takes the shell's stdout; lines that are not ours (a greeting) do not matter. To be called
  // again with nothing until it asks for nothing.
  Send feed(std::string_view bytes);
  Stage stage() const { return stage_; }

 private:
  static constexpr std::size_t kMaxLine = 4096;
  std::string line_;
  Stage stage_ = Stage::connect;
};

// "connecting", "sending hvd-agent", "waiting for its agent to call back"
const char* describe(RemoteStart::Stage stage);

}  // namespace hvdrun
