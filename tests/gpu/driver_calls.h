// Functions of the driver's as programs call them, for graphs and for times:
// found in the library that is the driver, the real one or the fake.
#pragma once

#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include "worker/hvd/gpu/cuda_api.h"

namespace hvdrun::test {

class GraphCalls {
 public:
  explicit GraphCalls(const char* driver_file) : library_(::dlopen(driver_file, RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error("no driver");
    find(begin_, "cuStreamBeginCapture_v2");
    find(end_, "cuStreamEndCapture");
    find(instantiate_, "cuGraphInstantiateWithFlags");
    find(launch_, "cuGraphLaunch");
    find(destroy_, "cuGraphDestroy");
    find(destroy_exec_, "cuGraphExecDestroy");
  }
  GraphCalls(const GraphCalls&) = delete;
  GraphCalls& operator=(const GraphCalls&) = delete;
  ~GraphCalls() { ::dlclose(library_); }

  // In the mode "global", the strictest one.
  void begin(cuda::Stream stream) const { check(begin_(stream, 0), "cuStreamBeginCapture"); }
  // Closes a capture that has failed, whatever the driver says of it.
  void drop(cuda::Stream stream) const {
    void* graph = nullptr;
    end_(stream, &graph);
    if (graph != nullptr) destroy_(graph);
  }

  // The captured work of a stream, to be run again and again.
  class Graph {
   public:
    Graph(const GraphCalls& calls, cuda::Stream stream) : calls_(calls) {
      check(calls_.end_(stream, &graph_), "cuStreamEndCapture");
      check(calls_.instantiate_(&exec_, graph_, 0), "cuGraphInstantiate");
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph() {
      calls_.destroy_exec_(exec_);
      calls_.destroy_(graph_);
    }
    void launch(cuda::Stream stream) const {
      check(calls_.launch_(exec_, stream), "cuGraphLaunch");
    }

   private:
    const GraphCalls& calls_;
    void* graph_ = nullptr;
    void* exec_ = nullptr;
  };

 private:
  static void check(cuda::Result result, const char* what) {
    if (result != cuda::kSuccess)
      throw std::runtime_error(std::string(what) + ": error " + std::to_string(result));
  }
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  }

  void* library_;
  cuda::Result (*begin_)(cuda::Stream, int) = nullptr;
  cuda::Result (*end_)(cuda::Stream, void**) = nullptr;
  cuda::Result (*instantiate_)(void**, void*, unsigned long long) = nullptr;
  cuda::Result (*launch_)(void*, cuda::Stream) = nullptr;
  cuda::Result (*destroy_)(void*) = nullptr;
  cuda::Result (*destroy_exec_)(void*) = nullptr;
};

// The time that a stream is busy between two moments.
class StreamClock {
 public:
  StreamClock(const char* driver_file, const cuda::Api& api)
      : api_(api), library_(::dlopen(driver_file, RTLD_NOW)) {
    elapsed_ = reinterpret_cast<Elapsed>(::dlsym(library_, "cuEventElapsedTime"));
    if (elapsed_ == nullptr || api_.event_create(&begin_, 0) != cuda::kSuccess ||
        api_.event_create(&end_, 0) != cuda::kSuccess)
      throw std::runtime_error("no events with times");
  }
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;
  ~StreamClock() {
    api_.event_destroy(begin_);
    api_.event_destroy(end_);
    ::dlclose(library_);
  }
  void begin(cuda::Stream stream) { api_.event_record(begin_, stream); }
  void end(cuda::Stream stream) { api_.event_record(end_, stream); }
  // After the stream has been waited for.
  double microseconds() const {
    float milliseconds = 0;
    if (elapsed_(&milliseconds, begin_, end_) != cuda::kSuccess)
      throw std::runtime_error("cuEventElapsedTime");
    return 1000.0 * static_cast<double>(milliseconds);
  }

 private:
  using Elapsed = cuda::Result (*)(float*, cuda::Event, cuda::Event);
  const cuda::Api& api_;
  void* library_;
  Elapsed elapsed_ = nullptr;
  cuda::Event begin_ = nullptr;
  cuda::Event end_ = nullptr;
};

}  // namespace hvdrun::test
