#include "tests/openssl_server.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

extern char** environ;

namespace hvdrun::test {
namespace {

// With this as all of its standard descriptors.
pid_t spawn_openssl(std::vector<std::string> words, int standard) {
  words.insert(words.begin(), "openssl");
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (int fd = 0; fd < 3; ++fd) ::posix_spawn_file_actions_adddup2(&actions, standard, fd);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  pid_t pid = -1;
  const int rc = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (rc != 0) throw std::system_error(rc, std::system_category(), "openssl");
  return pid;
}

// A certificate that vouches for itself, in a folder that lives as long as the test program.
class Certificate {
 public:
  Certificate() {
    char name[] = "/tmp/hvd-test-XXXXXX";
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (::mkdtemp(name) == nullptr || !null)
      throw std::runtime_error("no folder for a certificate");
    folder_ = name;
    const pid_t made = spawn_openssl(
        {"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
         "/CN=stranger", "-keyout", folder_ + "/key", "-out", folder_ + "/certificate"},
        null.get());
    int status = -1;
    if (::waitpid(made, &status, 0) != made || status != 0)
      throw std::runtime_error("openssl req makes no certificate");
  }
  ~Certificate() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  OpensslServer::Options options() const {
    return {"-cert", folder_ + "/certificate", "-key", folder_ + "/key"};
  }

 private:
  std::string folder_;
};

OpensslServer::Options with_key(OpensslServer::Options options, const std::string& identity) {
  std::string digits;
  for (int i = 0; i < 32; ++i) digits += "5a";
  for (const std::string& word :
       {std::string("-psk_identity"), identity, std::string("-psk"), digits})
    options.push_back(word);
  return options;
}

}  // namespace

OpensslServer::OpensslServer(const Options& options) {
  Options words{"s_server", "-accept", "127.0.0.1:0", "-tls1_3", "-msg"};
  words.insert(words.end(), options.begin(), options.end());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::system_category(), "socketpair");
  // Its input stays open: at the end of it s_server would leave.
  near_.reset(ends[0]);
  const UniqueFd far(ends[1]);
  process_ = spawn_openssl(words, far.get());
  const std::string before = "ACCEPT ";
  std::size_t at = std::string::npos;
  if (wait_for({before})) at = said_.find(before) + before.size();
  if (at == std::string::npos || !wait_for({"\n"}, at))
    throw std::runtime_error("openssl s_server does not listen: " + said_);
  address_ = said_.substr(at, said_.find('\n', at) - at);
}

OpensslServer::~OpensslServer() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

const std::string& OpensslServer::said() {
  while (read_some(0)) {
  }
  return said_;
}

bool OpensslServer::wait_for(const std::vector<std::string>& words, std::size_t from) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (true) {
    for (const std::string& word : words)
      if (said_.find(word, from) != std::string::npos) return true;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || !read_some(static_cast<int>(left.count()))) return false;
  }
}

std::string OpensslServer::heard() {
  std::istringstream lines(said());
  std::string kinds;
  const auto add = [&](const std::string& kind) { kinds += (kinds.empty() ? "" : " ") + kind; };
  bool inner = false;  // the next line is the kind of a record
  for (std::string line; std::getline(lines, line);) {
    const bool of_client = line.compare(0, 4, "<<< ") == 0;
    if (inner && line.find("17") != std::string::npos) add("data");
    inner = of_client && line.find("InnerContent") != std::string::npos;
    const auto comma = line.rfind(", ");
    if (!of_client || comma == std::string::npos) continue;
    const std::string kind = line.substr(comma + 2);
    if (kind.compare(0, 12, "RecordHeader") == 0 || kind.compare(0, 12, "InnerContent") == 0)
      continue;
    add(line.find(" Alert ") != std::string::npos ? "Alert" : kind.substr(0, kind.find(' ')));
  }
  return kinds;
}

std::vector<OpensslServer::Stranger> OpensslServer::strangers(const std::string& identity) {
  static const Certificate made;
  return {{"a certificate", made.options()},
          {"a certificate and an unknown identity", with_key(made.options(), "stranger")},
          {"another job's key", with_key({"-nocert"}, identity)},
          {"a certificate and another job's key", with_key(made.options(), identity)}};
}

bool OpensslServer::read_some(int wait) {
  pollfd polled{near_.get(), POLLIN, 0};
  char bytes[4096];
  if (::poll(&polled, 1, wait) <= 0) return false;
  const ssize_t got = ::recv(near_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (got > 0) said_.append(bytes, static_cast<std::size_t>(got));
  return got > 0;
}

std::map<unsigned, std::string> extensions_of_hello(std::string_view record) {
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes && at + i < record.size(); ++i)
      value = value << 8 | static_cast<unsigned char>(record[at + i]);
    return value;
  };
  std::map<unsigned, std::string> found;
  if (number(0, 1) != 22 || number(3, 2) + 5 != record.size() || number(5, 1) != 1) return found;
  std::size_t at = 5 + 4 + 2 + 32;  // the headers of record and message, version, random
  at += 1 + number(at, 1);          // session
  at += 2 + number(at, 2);          // ciphers
  at += 1 + number(at, 1) + 2;      // compressions, bytes of the extensions
  while (at + 4 <= record.size()) {
    const std::size_t size = number(at + 2, 2);
    if (at + 4 + size > record.size()) return {};
    found[static_cast<unsigned>(number(at, 2))] = record.substr(at + 4, size);
    at += 4 + size;
  }
  return found;
}

}  // namespace hvdrun::test
