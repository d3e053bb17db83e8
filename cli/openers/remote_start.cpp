#include "cli/openers/remote_start.h"

#include <fstream>

#include <openssl/evp.h>

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

// Within single quotes of whatever shell: no quote, no backslash, no exclamation mark, one line.
// The agent is kept in the user's own cache folder only. Where others could put a folder of that
// name, or a link (a home or cache folder that everybody may write to), a check by path proves
// nothing, since they may change what the path means after it. There, and where the cache has no
// room, it goes into a new folder of /tmp, which the guard removes as it starts. Nor is a folder
// taken without room for the agent, or from which nothing may be executed: the room is taken before
// the agent is asked for, because it comes only once. Hosts may share a home: what another one with
// the same process number still writes would be "text file busy" here. An agent that is there has a
// name of this launch's own from before it is checked until it runs, since another launch may
// remove those that nobody has used for long (worker/agent/kept_agent.h); where there are no hard
// links it does without. What the script makes is the user's alone; the ranks inherit the agent's
// umask, and theirs is the login's.
std::string remote_script(const AgentImage& image) {
  const std::string size = std::to_string(image.bytes.size());
  const auto intact = [&image](const char* file) {
    return "echo \"" + image.sha256 + "  $" + file + "\" | sha256sum -c >/dev/null 2>&1";
  };
  return "exec sh -c 'm=$(umask); umask 077; n=$(uname -n 2>/dev/null).$$; t=; f=; "
         "clean() { [ -z \"$f\" ] || rm -f \"$f\"; [ -z \"$t\" ] || rm -rf \"$t\"; }; "
         "trap clean EXIT; trap \"exit 93\" HUP INT PIPE TERM; "
         "closed() { case $(ls -ldL \"$1/\" 2>/dev/null) in d???????w*|\"\") return 1;; esac; }; "
         "b=${XDG_CACHE_HOME:-$HOME/.cache}; "
         "for k in cache tmp; do "
         "if [ $k = cache ]; then d=$b/hvdrun; "
         "mkdir -p \"$d\" 2>/dev/null && [ -O \"$b\" ] && [ -O \"$d\" ] && closed \"${b%/*}\" && "
         "closed \"$b\" && closed \"$d\" || continue; "
         "else d=$(mktemp -d \"${TMPDIR:-/tmp}/hvdrun.XXXXXX\" 2>/dev/null) || break; t=$d; fi; "
         "a=$d/agent-" +
         image.sha256.substr(0, 32) +
         "; f=$a.$n; "
         "if [ -w \"$d\" ] && { [ -x \"$a\" ] || "
         "{ head -c " +
         size +
         " /dev/zero >\"$f\" && chmod 700 \"$f\" && [ -x \"$f\" ]; } 2>/dev/null; }; then "
         "k=; break; fi; rm -f \"$f\"; done; "
         "if [ -n \"$k\" ]; then "
         "echo \"neither ~/.cache nor /tmp there can be written and has room for hvd-agent (" +
         std::to_string((image.bytes.size() + 999'999) / 1'000'000) +
         " MB)\" >&2; exit 93; fi; "
         "x=$a; l=; "
         "if [ -x \"$a\" ] && { if ln -f \"$a\" \"$f\" 2>/dev/null; then x=$f; l=1; fi; } && " +
         intact("x") +
         "; then [ -n \"$l\" ] || rm -f \"$f\"; echo hvdrun: have; else "
         "[ -z \"$l\" ] || rm -f \"$f\"; x=$a; echo hvdrun: need; "
         "if head -c " +
         size + " 1<>\"$f\" && " + intact("f") +
         " && chmod 700 \"$f\" && mv -f \"$f\" \"$a\"; then :; else "
         "echo hvdrun: bad; "
         "echo \"hvd-agent could not be stored in $d (disk full, or no sha256sum)\" >&2; exit 93; "
         "fi; fi; umask $m; echo hvdrun: start; exec \"$x\" guard ${t:+temporary}'";
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
