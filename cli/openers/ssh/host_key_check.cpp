#include "cli/openers/ssh/host_key_check.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "cli/text/log.h"
#include "common/base/random.h"
#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

constexpr std::size_t kSaltBytes = 20;

// In one write at the end of the file, so that several at a time do not mix their lines.
void record_host_key(const Libssh2Target& target, std::string_view key) {
  const std::string& path = target.record_in;
  if (path.empty()) return;
  std::string line =
      known_hosts_line(target.known_as, key, target.hash_names ? random_bytes(kSaltBytes) : "") +
      "\n";
  ::mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  char last = '\n';
  if (const off_t end = file ? ::lseek(file.get(), 0, SEEK_END) : 0; end > 0)
    (void)!::pread(file.get(), &last, 1, end - 1);
  if (last != '\n') line.insert(line.begin(), '\n');
  if (!file || ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    log_line(LogLevel::warn, "the key of " + target.host + " could not be recorded in " + path +
                                 ": " + std::system_category().message(errno));
}

}  // namespace

HostKeyRefusal check_host_key(const Libssh2Target& target, std::string_view key) {
  std::string where;
  const KnownHosts::Verdict verdict = target.known_hosts->check(target.known_as, key, where);
  const std::string shown = key_type(key) + " " + key_fingerprint(key);
  switch (verdict) {
    case KnownHosts::Verdict::known:
      break;
    case KnownHosts::Verdict::revoked:
      return {"Host key verification failed: " + where + " has revoked its key (" + shown + ")",
              ""};
    case KnownHosts::Verdict::changed:
      return {"Host key for " + target.known_as.name + " has changed: it shows " + shown + ", " +
                  where + " has another",
              ""};
    case KnownHosts::Verdict::unknown:
      if (target.accept_new) {
        record_host_key(target, key);
        break;
      }
      return {"Host key verification failed: nothing is known of its key (" + shown + ")",
              "if that is its key: echo '" + known_hosts_line(target.known_as, key) + "' >> " +
                  target.record_in + "; or trust new hosts with --accept-new-host-keys"};
  }
  return {};
}

}  // namespace hvdrun
