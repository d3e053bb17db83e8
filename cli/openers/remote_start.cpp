#include "cli/openers/remote_start.h"

#include <fstream>

#include <openssl/evp.h>

#include "cli/start_agent_script.h"  // made of start_agent.sh
#include "cli/text/user_errors.h"
#include "common/base/random.h"

namespace hvdrun {
namespace {

constexpr std::string_view kHave = "hvdrun: have";
constexpr std::string_view kNeed = "hvdrun: need";
constexpr std::string_view kBad = "hvdrun: bad";
constexpr std::string_view kStart = "hvdrun: start";
// With sanitizers it has 30 MB. A folder claims to have more.
constexpr std::streamoff kMaxImageBytes = 256 << 20;

}  // namespace

AgentImage read_agent_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size_told = file.tellg();
  AgentImage image;
  if (file && size_told > 0 && size_told <= kMaxImageBytes) {
    image.bytes.resize(static_cast<std::size_t>(size_told));
    file.seekg(0);
    file.read(image.bytes.data(), size_told);
  }
  if (!file || image.bytes.empty())
    throw HostError("cannot read " + path +
                    ", the agent for other hosts; it belongs beside hvdrun");
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(image.bytes.data(), image.bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    throw HostError("no SHA-256 in OpenSSL, which checks the agent on other hosts");
  image.sha256 = to_hex({reinterpret_cast<const char*>(digest), size});
  return image;
}

std::string remote_script(const AgentImage& image) {
  return "exec sh -c '" HVDRUN_START_AGENT "' sh " + std::to_string(image.bytes.size()) + " " +
         image.sha256;
}

RemoteStart::Send RemoteStart::feed(std::string_view bytes) {
  line_ += bytes;
  for (std::size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
    std::string line = line_.substr(0, end);
    line_.erase(0, end + 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    // A prompt or a greeting without a line end may stand before.
    const std::string_view text = line;
    if (text.ends_with(kNeed) && stage_ == Stage::connect) {
      stage_ = Stage::deploy;
      return Send::agent;
    }
    if (text.ends_with(kHave) && stage_ == Stage::connect) stage_ = Stage::deploy;
    if (text.ends_with(kBad)) stage_ = Stage::failed;
    if (text.ends_with(kStart) && stage_ == Stage::deploy) {
      stage_ = Stage::start;
      return Send::job;
    }
  }
  if (line_.size() > kMaxLine) line_.erase(0, line_.size() - kMaxLine);
  return Send::nothing;
}

const char* describe(RemoteStart::Stage stage) {
  switch (stage) {
    case RemoteStart::Stage::connect:
      return "connecting";
    case RemoteStart::Stage::deploy:
      return "sending hvd-agent";
    case RemoteStart::Stage::start:
      return "waiting for its agent to call back";
    case RemoteStart::Stage::failed:
      return "storing hvd-agent";
  }
  return "";
}

}  // namespace hvdrun
