#include "cli/openers/ssh/libssh2_host.h"

#include <sys/socket.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "cli/openers/ssh/host_key_check.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

using boost::asio::ip::tcp;

constexpr int kTurns = 16;  // before other connections have theirs

void init_libssh2() {
  static const int done = ::libssh2_init(0);
  (void)done;
}

std::string seconds(std::chrono::milliseconds time) {
  return std::to_string((time.count() + 999) / 1000) + " s";
}

}  // namespace

Libssh2Host::Libssh2Host(boost::asio::io_context& io, NameResolver& resolver, Libssh2Target target,
                         std::string command, std::chrono::milliseconds limit, Request request,
                         Callbacks callbacks)
    : RemoteHost(std::move(request), std::move(callbacks)),
      io_(io),
      resolver_(resolver),
      target_(std::move(target)),
      command_(std::move(command)),
      limit_(limit),
      deadline_(io),
      socket_(io),
      dialer_(io, socket_) {}

// A session says its farewell on a socket that is closed for that: it must not wait.
Libssh2Host::~Libssh2Host() {
  if (socket_.is_open()) ::shutdown(socket_.native_handle(), SHUT_RDWR);
  session_.reset();
}

const char* Libssh2Host::stage() const {
  switch (step_) {
    case Step::resolve:
      return "resolving its name";
    case Step::connect:
      return "connecting";
    case Step::agree:
      return "agreeing on keys";
    case Step::authenticate:
      return "logging in";
    case Step::open:
    case Step::exec:
      return "starting a shell";
    case Step::over:
      return stage_at_end_;
    case Step::talk:
    case Step::close:
      break;
  }
  return shell_runs() ? RemoteHost::stage() : "starting a shell";
}

void Libssh2Host::enter(Step step) {
  step_ = step;
  // As the client does: the server's first words belong to the connecting.
  wait_for(step == Step::agree ? target_.connect_timeout.value_or(limit_) : limit_);
}

void Libssh2Host::wait_for(std::chrono::milliseconds time) {
  deadline_.expires_after(time);
  deadline_.async_wait([this, time](const auto& ec) {
    if (!ec) on_deadline(time);
  });
}

void Libssh2Host::on_deadline(std::chrono::milliseconds time) {
  const bool waits = step_ < Step::talk || (step_ == Step::talk && !shell_runs());
  if (!waits || step_ == Step::connect) return;
  const std::string why = "no answer for " + seconds(is_patient_ ? limit_ : time);
  const bool is_agreeing = step_ == Step::agree;
  if (step_ == Step::resolve || (is_agreeing && !has_greeted())) return fail_for_now(why);
  if (is_agreeing && time < limit_ && !std::exchange(is_patient_, true))
    return wait_for(limit_ - time);
  fail(why);
}

bool Libssh2Host::has_greeted() const {
  return session_ && ::libssh2_session_banner_get(session_.get()) != nullptr;
}

void Libssh2Host::start() {
  init_libssh2();
  enter(Step::resolve);
  login_ = std::make_unique<Libssh2Login>(io_, target_, [this] { proceed(); });
  login_->find_keys([this](bool any) {
    if (any) return resolve();
    step_ = Step::authenticate;
    fail("the ssh agent has no ed25519 or ecdsa key", true);
  });
}

void Libssh2Host::resolve() {
  boost::system::error_code not_numeric;
  const auto address = boost::asio::ip::make_address(target_.host, not_numeric);
  if (!not_numeric) {
    return connect({tcp::endpoint(address, target_.port)});
  }
  const int family = target_.family == Libssh2Target::Family::v4   ? AF_INET
                     : target_.family == Libssh2Target::Family::v6 ? AF_INET6
                                                                   : AF_UNSPEC;
  resolver_.resolve(target_.host, target_.port, family,
                    [this, self = std::weak_ptr(self_)](const NameResolver::Fault& fault,
                                                        NameResolver::Endpoints endpoints) {
                      if (self.expired() || step_ == Step::over) return;
                      if (fault.text.empty()) return connect(std::move(endpoints));
                      std::string why = "could not resolve hostname " + printable(target_.host) +
                                        ": " + fault.text;
                      fault.may_pass ? fail_for_now(std::move(why)) : fail(std::move(why));
                    });
}

void Libssh2Host::connect(NameResolver::Endpoints endpoints) {
  step_ = Step::connect;
  deadline_.cancel();  // the dialer has one for each attempt
  dialer_.dial(std::move(endpoints), target_.connect_timeout.value_or(limit_), target_.attempts,
               [this](const auto& ec, const tcp::endpoint& endpoint) {
                 if (!ec) return on_connected();
                 std::string why = "connect to " + endpoint.address().to_string() + " port " +
                                   std::to_string(endpoint.port()) + ": " + ec.message();
                 may_pass(ec) ? fail_for_now(std::move(why)) : fail(std::move(why));
               });
}

void Libssh2Host::on_connected() {
  boost::system::error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  socket_.native_non_blocking(true, ignored);
  session_.reset(::libssh2_session_init());
  if (!session_) return fail("no memory for a session");
  LIBSSH2_SESSION* const session = session_.get();
  ::libssh2_session_set_blocking(session, 0);
  const std::pair<int, const std::string*> preferences[] = {
      {LIBSSH2_METHOD_KEX, &target_.kex},          {LIBSSH2_METHOD_HOSTKEY, &target_.host_keys},
      {LIBSSH2_METHOD_CRYPT_CS, &target_.ciphers}, {LIBSSH2_METHOD_CRYPT_SC, &target_.ciphers},
      {LIBSSH2_METHOD_MAC_CS, &target_.macs},      {LIBSSH2_METHOD_MAC_SC, &target_.macs}};
  enter(Step::agree);
  for (const auto& [method, names] : preferences)
    if (::libssh2_session_method_pref(session, method, names->c_str()) != 0)
      return fail("libssh2 knows none of " + *names, true);
  proceed();
}

void Libssh2Host::proceed() {
  while (step_ != Step::over) {
    int rc = 0;
    switch (step_) {
      case Step::agree:
        rc = ::libssh2_session_handshake(session_.get(), socket_.native_handle());
        break;
      case Step::authenticate:
        rc = login_->step(session_.get());
        break;
      case Step::open:
        channel_ = ::libssh2_channel_open_session(session_.get());
        rc = channel_ != nullptr ? 0 : ::libssh2_session_last_errno(session_.get());
        break;
      case Step::exec:
        rc = ::libssh2_channel_process_startup(channel_, "exec", 4, command_.data(),
                                               static_cast<unsigned>(command_.size()));
        break;
      case Step::talk:
        rc = talk();
        break;
      case Step::close:
        rc = close_channel();
        break;
      case Step::resolve:
      case Step::connect:
      case Step::over:
        return;
    }
    if (rc == LIBSSH2_ERROR_EAGAIN) return wait_for_socket();
    if (!step_done(rc)) return;
  }
}

bool Libssh2Host::step_done(int rc) {
  const Step done = step_;
  if (done == Step::over) return false;
  if (rc != 0) {
    if (done == Step::agree)
      fail_to_agree(rc);
    else if (done == Step::authenticate)
      fail(target_.user + "@" + target_.host + ": Permission denied (publickey)", true);
    else if (started())
      fail("the ssh connection to it broke");
    else
      fail(session_error());
    return false;
  }
  switch (done) {
    case Step::agree:
      check_host_key();
      break;
    case Step::authenticate:
      login_->stop();
      enter(Step::open);
      break;
    case Step::open:
      enter(Step::exec);
      break;
    case Step::exec:
      enter(Step::talk);
      break;
    case Step::talk:
      on_stdout_end();
      enter(Step::close);
      break;
    case Step::close:
      on_closed();
      break;
    case Step::resolve:
    case Step::connect:
    case Step::over:
      break;
  }
  return step_ != Step::over;
}

void Libssh2Host::wait_for_socket() {
  if (step_ == Step::authenticate && login_->asks_agent()) return;
  const auto ready = [this](bool& waiting) {
    return [this, &waiting](const boost::system::error_code& ec) {
      waiting = false;
      if (ec != boost::asio::error::operation_aborted) proceed();
    };
  };
  const int directions = ::libssh2_session_block_directions(session_.get());
  if ((directions & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0 && !std::exchange(waiting_to_write_, true))
    socket_.async_wait(tcp::socket::wait_write, ready(waiting_to_write_));
  // Also where it names no direction: the next event can only come from the server.
  if (directions != LIBSSH2_SESSION_BLOCK_OUTBOUND && !std::exchange(waiting_to_read_, true))
    socket_.async_wait(tcp::socket::wait_read, ready(waiting_to_read_));
}

void Libssh2Host::check_host_key() {
  std::size_t size = 0;
  int type = 0;
  const char* const bytes = ::libssh2_session_hostkey(session_.get(), &size, &type);
  const HostKeyRefusal refusal =
      hvdrun::check_host_key(target_, {bytes, bytes != nullptr ? size : 0});
  if (!refusal.why.empty()) return fail(refusal.why, false, refusal.advice);
  enter(Step::authenticate);
}

int Libssh2Host::talk() {
  const auto is_half_done = [this] {
    return (::libssh2_session_block_directions(session_.get()) & LIBSSH2_SESSION_BLOCK_OUTBOUND) !=
           0;
  };
  const auto run = [&](HalfDone operation) {
    const int rc = operation == HalfDone::writing       ? write_queue()
                   : operation == HalfDone::reading_out ? read_stream(0)
                                                        : read_stream(SSH_EXTENDED_DATA_STDERR);
    half_done_ = rc == LIBSSH2_ERROR_EAGAIN && is_half_done() ? operation : HalfDone::nothing;
    return rc;
  };
  if (half_done_ != HalfDone::nothing) {
    const int rc = run(half_done_);
    if (half_done_ != HalfDone::nothing) return rc;
  }
  // Each of them takes from the socket what is there, for the others too.
  bool more = true;
  for (int turn = 0; turn < kTurns && more; ++turn) {
    for (const HalfDone operation :
         {HalfDone::reading_out, HalfDone::reading_err, HalfDone::writing}) {
      const int rc = run(operation);
      if (half_done_ != HalfDone::nothing || (rc < 0 && rc != LIBSSH2_ERROR_EAGAIN)) return rc;
    }
    more = ::libssh2_poll_channel_read(channel_, 1) != 0;
  }
  // Others have their turn first; the socket would not tell of what has been taken from it.
  if (more) boost::asio::post(io_, [this] { proceed(); });
  return ::libssh2_channel_eof(channel_) != 0 ? 0 : LIBSSH2_ERROR_EAGAIN;
}

int Libssh2Host::read_stream(int stream) {
  char buffer[4096];
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto size = ::libssh2_channel_read_ex(channel_, stream, buffer, sizeof(buffer));
    if (size < 0) return static_cast<int>(size);
    if (size == 0) return LIBSSH2_ERROR_EAGAIN;
    const std::string_view bytes(buffer, static_cast<std::size_t>(size));
    stream == 0 ? on_stdout(bytes) : on_stderr(bytes);
  }
  return LIBSSH2_ERROR_EAGAIN;
}

int Libssh2Host::write_queue() {
  while (!to_write_.empty()) {
    std::string_view& bytes = to_write_.front();
    const auto size = ::libssh2_channel_write(channel_, bytes.data(), bytes.size());
    if (size < 0) return static_cast<int>(size);
    bytes.remove_prefix(static_cast<std::size_t>(size));
    if (bytes.empty()) to_write_.erase(to_write_.begin());
    if (size == 0) return LIBSSH2_ERROR_EAGAIN;
  }
  if (on_sent_) boost::asio::post(io_, std::exchange(on_sent_, {}));
  if (input_ended_ && !eof_sent_) {
    if (const int rc = ::libssh2_channel_send_eof(channel_)) return rc;
    eof_sent_ = true;
  }
  return 0;
}

int Libssh2Host::close_channel() {
  if (const int rc = ::libssh2_channel_close(channel_)) return rc;
  return ::libssh2_channel_wait_closed(channel_);
}

void Libssh2Host::on_closed() {
  on_stderr("\n");
  char* signal = nullptr;
  std::size_t signal_size = 0;
  ::libssh2_channel_get_exit_signal(channel_, &signal, &signal_size, nullptr, nullptr, nullptr,
                                    nullptr);
  std::string how;
  if (signal != nullptr) {
    how = "was killed by signal " + printable({signal, signal_size});
    ::libssh2_free(session_.get(), signal);
  } else if (const int code = ::libssh2_channel_get_exit_status(channel_)) {
    how = "ended with code " + std::to_string(code);
  }
  End ended;
  if (started()) {
    if (!how.empty()) ended.why = "its guard " + how;
  } else {
    ended.why = last_words();
    if (ended.why.empty()) ended.why = "the shell there " + (how.empty() ? "ended at once" : how);
  }
  end(std::move(ended));
}

std::string Libssh2Host::session_error() const {
  char* text = nullptr;
  int size = 0;
  ::libssh2_session_last_error(session_.get(), &text, &size, 0);
  return "libssh2: " + (size > 0 ? printable({text, static_cast<std::size_t>(size)})
                                 : std::string("the connection broke"));
}

void Libssh2Host::write(std::string_view bytes) { to_write_.push_back(bytes); }

void Libssh2Host::send(std::string bytes, std::function<void()> done) {
  if (step_ != Step::talk || input_ended_) return;
  sending_ = std::move(bytes);
  on_sent_ = std::move(done);
  write(sending_);
  // The caller may have been called from within proceed().
  boost::asio::post(io_, [this] { proceed(); });
}

void Libssh2Host::close_lease() {
  if (step_ == Step::over || std::exchange(input_ended_, true)) return;
  if (step_ != Step::talk) {
    if (step_ != Step::close) fail("it was called off");
    return;
  }
  // The caller may have been called from within proceed().
  boost::asio::post(io_, [this] { proceed(); });
}

void Libssh2Host::give_up() { fail("it does not answer any more"); }

void Libssh2Host::fail_to_agree(int rc) {
  End ended;
  ended.why = session_error();
  ended.worth_another_client = true;
  ended.worth_another_try = rc == LIBSSH2_ERROR_SOCKET_DISCONNECT ||
                            rc == LIBSSH2_ERROR_SOCKET_RECV || rc == LIBSSH2_ERROR_BANNER_RECV;
  ended.not_there_yet = ended.worth_another_try && !has_greeted();
  end(std::move(ended));
}

void Libssh2Host::fail(std::string why, bool worth_another_client, std::string advice) {
  End ended;
  ended.why = std::move(why);
  ended.worth_another_client = worth_another_client;
  ended.advice = std::move(advice);
  end(std::move(ended));
}

void Libssh2Host::fail_for_now(std::string why) {
  End ended;
  ended.why = std::move(why);
  ended.not_there_yet = true;
  end(std::move(ended));
}

// The session goes later: libssh2 may be calling. The stage that it ended in remains to be told.
void Libssh2Host::end(End ended) {
  if (step_ == Step::over) return;
  stage_at_end_ = stage();
  step_ = Step::over;
  deadline_.cancel();
  dialer_.stop();
  if (login_) login_->stop();
  if (socket_.is_open()) ::shutdown(socket_.native_handle(), SHUT_RDWR);
  boost::asio::post(io_, [this, ended = std::move(ended)] {
    session_.reset();
    channel_ = nullptr;
    boost::system::error_code ignored;
    socket_.close(ignored);
    on_stdout_end();
    callbacks_.ended(ended);
  });
}

}  // namespace hvdrun
