// The fake driver's streams and events: work in order, each stream on a thread of its own.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace hvdrun::test {

class FakeStream;

// The work that captured streams take for a graph, in an order in which it can run.
struct FakeCapture {
  std::mutex mutex;
  std::vector<std::function<void()>> work;
  int graphs = 0;  // made of it, and not destroyed; the last one takes the work along
  FakeStream* origin = nullptr;
  // The size when a stream put its last work, and when the origin last waited for it.
  std::map<FakeStream*, std::size_t> last;
  std::map<FakeStream*, std::size_t> joined;
  std::vector<void*> memory;  // freed with the graph
};

struct FakeEvent {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  bool timing = false;
  std::int64_t time = 0;  // of the GPU's clock as it was reached, nanoseconds
  // Where it was last recorded in a graph; then `recorded` says nothing.
  std::shared_ptr<FakeCapture> capture = {};
  FakeStream* captured_on = nullptr;
  std::size_t place = 0;
};

// The clock that events with timing are told by. In fake_cuda.cpp.
std::int64_t gpu_time();

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
    if (capture_ && work) {
      const std::lock_guard inner(capture_->mutex);
      capture_->work.push_back(std::move(work));
      capture_->last[this] = capture_->work.size();
      return;
    }
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

  std::shared_ptr<FakeCapture> capture() {
    const std::lock_guard lock(mutex_);
    return capture_;
  }
  void set_capture(std::shared_ptr<FakeCapture> capture) {
    const std::lock_guard lock(mutex_);
    capture_ = std::move(capture);
  }

  void record(const std::shared_ptr<FakeEvent>& event) {
    const std::lock_guard lock(event->mutex);
    event->capture = capture();
    if (event->capture) {
      const std::lock_guard inner(event->capture->mutex);
      event->captured_on = this;
      event->place = event->capture->work.size();
      return;
    }
    const std::uint64_t turn = ++event->recorded;
    push([event, turn] {
      const std::lock_guard inner(event->mutex);
      event->reached = std::max(event->reached, turn);
      event->time = gpu_time();
      event->changed.notify_all();
    });
  }

  // False for what CUDA refuses: a wait from one graph to another, or out of one.
  bool wait(const std::shared_ptr<FakeEvent>& event) {
    const std::lock_guard lock(event->mutex);
    const auto own = capture();
    if (event->capture) {
      if (own && own != event->capture) return false;
      {
        const std::lock_guard inner(event->capture->mutex);
        if (event->capture->origin == nullptr) return false;  // closed
      }
      // A stream's mutex is never taken within that of a capture.
      if (!own) set_capture(event->capture);
      const std::lock_guard inner(event->capture->mutex);
      event->capture->last.try_emplace(this, 0);
      if (event->capture->origin == this) event->capture->joined[event->captured_on] = event->place;
      return true;
    }
    if (own) return event->recorded == 0;
    push([event, turn = event->recorded] {
      std::unique_lock inner(event->mutex);
      event->changed.wait(inner, [&] { return event->reached >= turn; });
    });
    return true;
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
  std::shared_ptr<FakeCapture> capture_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
};

// nullptr is the default stream of the current context. In fake_cuda.cpp.
FakeStream& fake_stream(void* stream);
std::string name_of(void* stream);  // in the log
bool has_context();
// For every call of the driver's and of NCCL's.
void crash_if_ended();

}  // namespace hvdrun::test
