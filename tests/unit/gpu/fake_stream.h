// The fake driver's streams and events: work in order, each stream on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace hvdrun::test {

struct FakeEvent {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
};

class FakeStream {
 public:
  explicit FakeStream(int number) : number_(number), thread_([this] { run(); }) {}
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  ~FakeStream() {
    push({});
    thread_.join();
  }
  int number() const { return number_; }

  // An empty one ends the thread, after what was pushed before.
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

  void record(const std::shared_ptr<FakeEvent>& event) {
    const std::lock_guard lock(event->mutex);
    const std::uint64_t turn = ++event->recorded;
    push([event, turn] {
      const std::lock_guard inner(event->mutex);
      event->reached = std::max(event->reached, turn);
      event->changed.notify_all();
    });
  }

  void wait(const std::shared_ptr<FakeEvent>& event) {
    const std::lock_guard lock(event->mutex);
    push([event, turn = event->recorded] {
      std::unique_lock inner(event->mutex);
      event->changed.wait(inner, [&] { return event->reached >= turn; });
    });
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !work_.empty(); });
        work = std::move(work_.front());
        work_.pop_front();
      }
      if (!work) return;
      work();
    }
  }

  int number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
};

// nullptr is the default stream of the current context. In fake_cuda.cpp.
FakeStream& fake_stream(void* stream);
bool has_context();

}  // namespace hvdrun::test
