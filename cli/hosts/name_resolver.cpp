#include "cli/hosts/name_resolver.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <netdb.h>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxThreads = 8;

struct Question {
  std::uint64_t id = 0;
  std::string host;
  std::uint16_t port = 0;
  int family = 0;
};

struct Answer {
  std::uint64_t id = 0;
  NameResolver::Fault fault;
  NameResolver::Endpoints endpoints;
};

// A name that a server does not know yet, or a server that does not answer yet.
bool is_of_now(int fault) {
  return fault == EAI_NONAME || fault == EAI_AGAIN || fault == EAI_NODATA || fault == EAI_FAIL;
}

Answer look_up(const Question& question) {
  Answer answer;
  answer.id = question.id;
  addrinfo hints{};
  hints.ai_family = question.family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(question.host.c_str(), nullptr, &hints, &found);
  if (rc != 0) {
    answer.fault = {::gai_strerror(rc), is_of_now(rc)};
    return answer;
  }
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    boost::asio::ip::tcp::endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    endpoint.resize(entry->ai_addrlen);
    endpoint.port(question.port);
    answer.endpoints.push_back(endpoint);
  }
  ::freeaddrinfo(found);
  if (answer.endpoints.empty()) answer.fault = {"the name has no address", true};
  return answer;
}

}  // namespace

// The threads' own state; it lives as long as the last of them.
struct NameResolver::Shared {
  Mutex mutex;
  std::deque<Question> questions HVD_GUARDED_BY(mutex);
  std::vector<Answer> answers HVD_GUARDED_BY(mutex);
  std::size_t threads HVD_GUARDED_BY(mutex) = 0;
  UniqueFd answered{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  // The life of a thread: until there is nothing to look up.
  void work() {
    while (true) {
      Question question;
      {
        const MutexLock lock(mutex);
        if (questions.empty()) {
          --threads;
          return;
        }
        question = std::move(questions.front());
        questions.pop_front();
      }
      Answer answer = look_up(question);
      const MutexLock lock(mutex);
      answers.push_back(std::move(answer));
      const std::uint64_t one = 1;
      (void)!::write(answered.get(), &one, sizeof(one));
    }
  }
};

struct NameResolver::State {
  explicit State(boost::asio::io_context& io)
      : shared(std::make_shared<Shared>()), event(io, duplicate(shared->answered.get())) {}

  static int duplicate(int fd) {
    const int made = ::dup(fd);
    if (made < 0) throw std::system_error(errno, std::system_category(), "dup");
    return made;
  }

  std::shared_ptr<Shared> shared;
  boost::asio::posix::stream_descriptor event;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, Handler> waiting;
};

NameResolver::NameResolver(boost::asio::io_context& io) : io_(io) {}
NameResolver::~NameResolver() = default;

void NameResolver::resolve(const std::string& host, std::uint16_t port, int family,
                           Handler handler) {
  if (!state_) state_ = std::make_unique<State>(io_);
  const std::uint64_t id = ++state_->last_id;
  const bool first = state_->waiting.empty();
  state_->waiting[id] = std::move(handler);
  bool more = false;
  {
    const MutexLock lock(state_->shared->mutex);
    state_->shared->questions.push_back({id, host, port, family});
    more = state_->shared->threads < kMaxThreads;
    if (more) ++state_->shared->threads;
  }
  if (more) std::thread([shared = state_->shared] { shared->work(); }).detach();
  if (first) wait_for_answers();
}

void NameResolver::wait_for_answers() {
  state_->event.async_wait(state_->event.wait_read, [this](const auto& ec) {
    if (ec) return;
    std::uint64_t count = 0;
    (void)!::read(state_->event.native_handle(), &count, sizeof(count));
    std::vector<Answer> answers;
    {
      const MutexLock lock(state_->shared->mutex);
      answers.swap(state_->shared->answers);
    }
    std::vector<std::pair<Handler, Answer>> ready;
    for (Answer& answer : answers) {
      const auto found = state_->waiting.find(answer.id);
      ready.emplace_back(std::move(found->second), std::move(answer));
      state_->waiting.erase(found);
    }
    if (!state_->waiting.empty()) wait_for_answers();
    for (auto& [handler, answer] : ready) handler(answer.fault, std::move(answer.endpoints));
  });
}

}  // namespace hvdrun
